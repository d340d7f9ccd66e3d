// See predictions.hpp.
#include "manyclass/choice/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "manyclass/choice/parts.hpp"
#include "manyclass/choice/rules.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

namespace {

constexpr double none = -std::numeric_limits<double>::infinity();

// Calls f(i, u) with the utilities of all alternatives for each row i.
template <class F>
void for_rows(const ChoiceProblem& problem, const ChoiceParts& parts, const F& f) {
  const std::size_t k = problem.n_alternatives();
  for_pieces(problem, parts, parts.width, [&](const ChoicePiece& piece) {
    const ChoiceRows& rows = piece.question.rows;
    const std::vector<double> transposed = rows.listed_only ? std::vector<double>{} : by_feature(rows);
    constexpr std::size_t together = 16;
    parallel_for(problem.n_threads, (piece.size() + together - 1) / together, [&](std::size_t chunk) {
      std::vector<double> u(k), own;
      for (std::size_t i = chunk * together; i < std::min(piece.size(), (chunk + 1) * together); ++i) {
        own.resize(rows.set_size(i));
        utilities_of(rows, transposed, i, own);
        if (rows.listed_only) {
          std::ranges::fill(u, none);
          for (std::size_t p = 0; p < own.size(); ++p) {
            u[static_cast<std::size_t>(rows.alternatives[rows.begin(i) + p])] = own[p];
          }
        } else {
          u.swap(own);
        }
        f(piece.begin + i, u);
      }
    });
  });
}

// Probabilities p of utilities u, of which at least one is finite.
class Probabilities {
 public:
  Probabilities(const ChoiceProblem& problem, const ChoiceParts& parts) : problem_(problem), parts_(parts) {}

  void operator()(std::span<const double> u, std::span<double> p) const {
    const ChoiceForm& form = problem_.form;
    if (form.model == "gumbel") {
      GumbelChoice{}.set(u, u.size(), p);
    } else if (form.model == "nested") {
      NestedChoice rule(parts_.dissimilarity);
      rule.nests = form.nests;
      rule.set(u, u.size(), p);
    } else {
      // Beyond 64 behind the foremost a probability is below 1e-8 of its last digits; -infinity is not allowed.
      const double least = largest_of(u) - 200;
      std::vector<double> psi(u.begin(), u.end());
      for (double& value : psi) value = std::max(value, least);
      utility_probabilities(noise_named(form.model), {psi, psi.size()}, false, 1, problem_.isa, p);
      for (std::size_t k = 0; k < u.size(); ++k) p[k] = u[k] > none ? p[k] : 0.0;
    }
  }

 private:
  const ChoiceProblem& problem_;
  const ChoiceParts& parts_;
};

// How the utilities of a row move with a feature.
class Slopes {
 public:
  Slopes(const ChoiceProblem& problem, const ChoiceParts& parts, std::span<const double> theta,
         const MovedFeature& feature)
      : problem_(problem), parts_(parts), feature_(feature), of_all_(problem.n_alternatives()) {
    const ChoiceForm& form = problem.form;
    const auto below = [&](std::size_t n) {
      if (feature.column >= n) throw std::invalid_argument("there is no such feature");
    };
    if (feature.of == "chooser") {
      below(form.n_chooser_features);
      if (form.rank == 0) return;
      const auto row = std::span(parts.W).subspan(feature.column * parts.width, parts.width);
      if (parts.own_tastes) {
        std::ranges::copy(row, of_all_.begin());
      } else {
        add_features(problem, row, of_all_);
      }
    } else {
      below(feature.of == "pair" ? form.n_pair_features : form.n_alternative_features);
      slope_ = theta[feature.of == "pair" ? form.pairs_at() + feature.column : feature.column];
    }
  }

  void operator()(std::size_t i, std::span<double> out) const {
    if (feature_.of == "chooser") {
      std::ranges::copy(of_all_, out.begin());
      return;
    }
    double slope = slope_;
    for (std::size_t j = 0; feature_.of == "alternative" && j * parts_.width < parts_.W.size(); ++j) {
      const std::size_t d = problem_.form.n_chooser_features;
      slope += problem_.data.X[i * d + j] * parts_.W[j * parts_.width + feature_.column];
    }
    std::ranges::fill(out, feature_.alternative < 0 ? slope : 0.0);
    if (feature_.alternative >= 0) out[static_cast<std::size_t>(feature_.alternative)] = slope;
  }

 private:
  const ChoiceProblem& problem_;
  const ChoiceParts& parts_;
  const MovedFeature& feature_;
  std::vector<double> of_all_;
  double slope_ = 0;
};

double value_of(const ChoiceProblem& problem, const std::vector<double>& features, const MovedFeature& feature,
                std::size_t i) {
  const ChoiceForm& form = problem.form;
  const ChoiceData& data = problem.data;
  if (feature.of == "alternative") {
    return features[static_cast<std::size_t>(feature.alternative) * form.n_alternative_features + feature.column];
  }
  if (data.indptr.empty()) return 0;
  for (auto at = static_cast<std::size_t>(data.indptr[i]); at < static_cast<std::size_t>(data.indptr[i + 1]); ++at) {
    if (data.alternatives[at] == feature.alternative) {
      return data.pair_features[at * form.n_pair_features + feature.column];
    }
  }
  return 0;
}

}  // namespace

void utilities(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = parts_of(problem, theta);
  for_rows(problem, parts, [&](std::size_t i, std::span<const double> u) {
    std::ranges::copy(u, out.subspan(i * u.size(), u.size()).begin());
  });
}

void probabilities(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = parts_of(problem, theta);
  const Probabilities of(problem, parts);
  for_rows(problem, parts,
           [&](std::size_t i, std::span<const double> u) { of(u, out.subspan(i * u.size(), u.size())); });
}

void most_probable(const ChoiceProblem& problem, std::span<const double> theta, std::size_t m, std::span<Index> ids,
                   std::span<double> shares) {
  const std::size_t k = problem.n_alternatives();
  if (m > k) throw std::invalid_argument("there are fewer alternatives");
  const ChoiceParts parts = parts_of(problem, theta);
  const Probabilities of(problem, parts);
  for_rows(problem, parts, [&](std::size_t i, std::span<const double> u) {
    std::vector<double> p(k);
    std::vector<Index> order(k);
    of(u, p);
    std::iota(order.begin(), order.end(), Index{0});
    const auto at = [&p](Index id) { return p[static_cast<std::size_t>(id)]; };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(m), order.end(),
                      [&at](Index a, Index b) { return at(a) > at(b) || (at(a) == at(b) && a < b); });
    for (std::size_t j = 0; j < m; ++j) {
      ids[i * m + j] = order[j];
      shares[i * m + j] = at(order[j]);
    }
  });
}

void marginal_effects(const ChoiceProblem& problem, std::span<const double> theta, const MovedFeature& feature,
                      std::span<double> out) {
  const ChoiceParts parts = parts_of(problem, theta);
  const Probabilities of(problem, parts);
  const Slopes slopes(problem, parts, theta, feature);
  for_rows(problem, parts, [&](std::size_t i, std::span<const double> u) {
    const std::size_t k = u.size();
    std::vector<double> slope(k), moved(k), down(k);
    slopes(i, slope);
    const auto row = out.subspan(i * k, k);
    double steepest = 0;
    for (const double value : slope) steepest = std::max(steepest, std::abs(value));
    if (steepest == 0) {
      std::ranges::fill(row, 0.0);
      return;
    }
    // Utilities move by at most 1e-4, so that the third derivative leaves some 1e-9 in relation to the first.
    const double step = 1e-4 / steepest;
    for (std::size_t a = 0; a < k; ++a) moved[a] = u[a] + step * slope[a];
    of(moved, row);
    for (std::size_t a = 0; a < k; ++a) moved[a] = u[a] - step * slope[a];
    of(moved, down);
    for (std::size_t a = 0; a < k; ++a) row[a] = (row[a] - down[a]) / (2 * step);
  });
}

void elasticity_sums(const ChoiceProblem& problem, std::span<const double> theta, const MovedFeature& feature,
                     std::span<double> effects, std::span<double> shares) {
  const std::size_t n = problem.n_rows(), k = problem.n_alternatives();
  std::vector<double> of_effects(n * k), p(n * k);
  marginal_effects(problem, theta, feature, of_effects);
  probabilities(problem, theta, p);
  const std::vector<double> features = dense_features(problem);
  for (std::size_t i = 0; i < n; ++i) {
    const double weight = problem.weight(i), value = value_of(problem, features, feature, i);
    for (std::size_t a = 0; a < k; ++a) {
      effects[a] += weight * value * of_effects[i * k + a];
      shares[a] += weight * p[i * k + a];
    }
  }
}

void log_set_sizes(const ChoiceProblem& problem, std::span<double> out) {
  const ChoiceData& data = problem.data;
  const auto open = [](double constant) { return constant > none; };
  const auto n_open = std::ranges::count_if(data.constants, open);
  for (std::size_t i = 0; i < problem.n_rows(); ++i) {
    std::ptrdiff_t size = data.listed_only ? 0 : n_open;
    const std::size_t end = data.indptr.empty() ? 0 : static_cast<std::size_t>(data.indptr[i + 1]);
    for (std::size_t at = end > 0 ? static_cast<std::size_t>(data.indptr[i]) : 0; at < end; ++at) {
      if (!open(data.constants[static_cast<std::size_t>(data.alternatives[at])])) continue;
      const bool available = data.offsets.empty() || open(data.offsets[at]);
      size += data.listed_only ? available : -static_cast<std::ptrdiff_t>(!available);
    }
    out[i] = std::log(static_cast<double>(size));
  }
}

}  // namespace manyclass
