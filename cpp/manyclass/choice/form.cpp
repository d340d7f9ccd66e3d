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

bool ChoiceForm::has_scores() const {
  constexpr std::size_t most_features = 300;  // whose covariances take 720 kB for a row
  const std::size_t q = n_alternative_features, own = has_own_tastes() ? width() : 0;
  return rank <= 0 && q + std::max(n_groups, std::size_t{1}) <= most_features &&
         q + n_constants() + own + n_pair_features <= most_features;
}

}  // namespace manyclass
