// See form.hpp.
#include "manyclass/choice/form.hpp"

#include <algorithm>
#include <stdexcept>

namespace manyclass {

void check(const ChoiceForm& form) {
  const auto outside = [](std::size_t n) {
    return [n](auto at) { return at < 0 || static_cast<std::size_t>(at) >= n; };
  };
  if (std::ranges::any_of(form.groups, outside(form.n_groups)) || form.groups.empty() != (form.n_groups == 0)) {
    throw std::invalid_argument("a group is out of range");
  }
  if (std::ranges::any_of(form.nests, outside(form.n_nests)) || form.nests.empty() != (form.n_nests == 0)) {
    throw std::invalid_argument("a nest is out of range");
  }
  if (form.rank < -1) throw std::invalid_argument("rank is " + std::to_string(form.rank) + "; it must be at least -1");
}

std::vector<double> interactions(const ChoiceForm& form, std::span<const double> theta) {
  const std::size_t d = form.n_chooser_features, w = form.width();
  const auto own = theta.subspan(form.interactions_at(), form.n_interactions());
  if (form.rank < 0) return {own.begin(), own.end()};
  const auto m = static_cast<std::size_t>(form.rank);
  const auto left = own.first(d * m), right = own.subspan(d * m);
  std::vector<double> out(d * w);
  for (std::size_t x = 0; x < d; ++x) {
    for (std::size_t z = 0; z < w; ++z) {
      double sum = 0;
      for (std::size_t c = 0; c < m; ++c) sum += left[x * m + c] * right[z * m + c];
      out[x * w + z] = sum;
    }
  }
  return out;
}

void add_interactions(const ChoiceForm& form, std::span<const double> theta, std::span<const double> by_w,
                      std::span<double> gradient) {
  const std::size_t d = form.n_chooser_features, w = form.width();
  const auto out = gradient.subspan(form.interactions_at(), form.n_interactions());
  if (form.rank < 0) {
    for (std::size_t j = 0; j < out.size(); ++j) out[j] += by_w[j];
    return;
  }
  const auto m = static_cast<std::size_t>(form.rank);
  const auto own = theta.subspan(form.interactions_at(), form.n_interactions());
  for (std::size_t x = 0; x < d; ++x) {
    for (std::size_t z = 0; z < w; ++z) {
      for (std::size_t c = 0; c < m; ++c) {
        out[x * m + c] += by_w[x * w + z] * own[(d + z) * m + c];
        out[(d + z) * m + c] += by_w[x * w + z] * own[x * m + c];
      }
    }
  }
}

ChoiceForm with_full_interactions(const ChoiceForm& form) {
  ChoiceForm full = form;
  full.rank = form.rank == 0 ? 0 : -1;
  return full;
}

bool has_scores(const ChoiceForm& form) {
  constexpr std::size_t most_features = 300;  // whose covariances take 720 kB for a row
  const std::size_t q = form.n_alternative_features;
  const std::size_t own = form.has_own_tastes() ? form.width() : 0;
  return form.rank <= 0 && q + std::max(form.n_groups, std::size_t{1}) <= most_features &&
         q + form.n_constants() + own + form.n_pair_features <= most_features;
}

std::vector<std::string> coefficient_names(const ChoiceForm& form, const ChoiceNames& names) {
  std::vector<std::string> found;
  const auto add = [&](std::span<const std::string> some, const std::string& before, const std::string& behind) {
    for (const std::string& name : some) found.emplace_back(before).append(name).append(behind);
  };
  const auto without_first = [](const std::vector<std::string>& some) {
    return std::span(some).subspan(some.empty() ? 0 : 1);
  };
  const auto columns = form.has_own_tastes() ? without_first(names.labels) : std::span(names.alternatives);
  add(names.alternatives, "", "");
  add(names.pairs, "", "");
  if (form.rank < 0) {
    for (const std::string& chooser : names.choosers) add(columns, chooser + ":", "");
  } else if (form.rank > 0) {
    for (const auto some : {std::span(names.choosers), columns}) {
      for (const std::string& name : some) {
        for (int r = 0; r < form.rank; ++r) found.emplace_back(name).append("[").append(std::to_string(r)).append("]");
      }
    }
  }
  add(without_first(names.groups), "constant[", "]");
  add(names.nests, "dissimilarity[", "]");
  if (found.size() != form.size()) throw std::invalid_argument("the names do not fit the form");
  return found;
}

}  // namespace manyclass
