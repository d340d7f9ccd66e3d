// One person of a mixed logit: pairs of rows and alternatives, and what draws make of their utilities.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "manyclass/choice/mixed.hpp"
#include "manyclass/choice/products.hpp"
#include "manyclass/math/elementary_double.hpp"

namespace manyclass::mixed {

inline constexpr std::size_t block = 64;  // draws that are worked through together: a row of 512 bytes for each pair
inline constexpr double most_apart =
    600.0;  // utilities beside the chosen one's, so that sums of exponentials stay finite

inline std::size_t as_size(Offset at) { return static_cast<std::size_t>(at); }

// Calls take(c, value) for each coefficient c of the form by which the utility of alternative k for row i grows by
// `value`; `listed` is the pair's place in the lists, or -1.
template <class Take>
void for_terms(const ChoiceProblem& problem, std::size_t i, std::size_t k, Offset listed, const Take& take) {
  const ChoiceForm& form = problem.form;
  const ChoiceData& data = problem.data;
  const std::size_t d = form.n_chooser_features, q = form.n_alternative_features, r = form.n_pair_features;
  const double* x = data.X.data() + i * d;
  const auto take_feature = [&](std::size_t j, double z) {
    take(j, z);
    for (std::size_t f = 0; form.rank != 0 && f < d; ++f) take(form.interactions_at() + f * q + j, x[f] * z);
  };
  if (data.Z_indptr.empty()) {
    for (std::size_t j = 0; j < q; ++j) take_feature(j, data.Z[k * q + j]);
  } else {
    for (std::size_t at = as_size(data.Z_indptr[k]); at < as_size(data.Z_indptr[k + 1]); ++at) {
      take_feature(static_cast<std::size_t>(data.Z_indices[at]), data.Z[at]);
    }
  }
  for (std::size_t j = 0; listed >= 0 && j < r; ++j) {
    take(form.pairs_at() + j, data.pair_features[as_size(listed) * r + j]);
  }
  if (form.has_own_tastes() && k > 0) {
    for (std::size_t f = 0; f < d; ++f) take(form.interactions_at() + f * form.width() + k - 1, x[f]);
  }
  if (!form.groups.empty() && form.groups[k] > 0) take(form.constants_at() + as_size(form.groups[k]) - 1, 1.0);
}

// The sum over a block of draws, of values times weights.
inline double block_sum(const double* values, const double* weights) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {};
  for (std::size_t r = 0; r < block; r += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += values[r + l] * weights[r + l];
  }
  double total = 0;
  for (const double part : sums) total += part;
  return total;
}

inline double block_sum(const double* values) {
  double total = 0;
  for (std::size_t r = 0; r < block; ++r) total += values[r];
  return total;
}

// What the draws of one person are worked through with.
class Person {
 public:
  Person(const MixedProblem& mixed, const PersonDraws& draws, std::span<const double> theta)
      : mixed_(mixed),
        draws_(draws),
        theta_(theta),
        n_varying_(mixed.n_varying()),
        varying_(mixed.problem.form.size(), -1),
        z_(n_varying_ * block),
        beta_(z_.size()),
        by_beta_(z_.size()),
        log_likelihood_(block),
        weights_(block),
        sum_(block),
        gradient_(mixed.n_coefficients) {
    for (std::size_t j = 0; j < n_varying_; ++j) varying_[static_cast<std::size_t>(mixed.columns[j])] = Offset(j);
  }

  // Takes the utilities of a person's rows apart: each pair's relative to the choice, or where choices do not count to
  // the pair that is best at the middle of the distribution, and what the coefficients that vary are multiplied by.
  void load(std::size_t person, bool with_choices) {
    person_ = person;
    rows_.clear();
    pairs_.clear();
    fixed_.clear();
    design_.clear();
    set_locations();
    const ChoiceProblem& problem = mixed_.problem;
    for (std::size_t i = as_size(mixed_.persons[person]); i < as_size(mixed_.persons[person + 1]); ++i) {
      const std::size_t first = pairs_.size();
      add_pairs(i);
      std::size_t reference = first;
      while (with_choices && reference < pairs_.size() && pairs_[reference].k != as_size(problem.data.chosen[i])) {
        ++reference;
      }
      if (reference == pairs_.size()) {
        throw std::invalid_argument("row " + std::to_string(i) + " has chosen what is not available to it");
      }
      for (std::size_t p = first; !with_choices && p < pairs_.size(); ++p) {
        if (middle(p) > middle(reference)) reference = p;
      }
      move_first(first, reference);
      rows_.push_back({i, first, pairs_.size()});
    }
    relate_to_references();
    exponentials_.resize(pairs_.size() * block);
  }

  // Goes over all draws: use(n) follows each block of n of them, when exponentials are probabilities, and weights those
  // of the draws relative to the largest so far; rescale(factor) comes before where that changes.
  template <class Rescale, class Use>
  void for_blocks(const Rescale& rescale, const Use& use) {
    largest_ = -std::numeric_limits<double>::infinity();
    for (std::size_t begin = 0; begin < draws_.n_draws; begin += block) {
      const std::size_t n = std::min(block, draws_.n_draws - begin);
      run_with(mixed_.problem.isa, [&] {
        draw(begin, n);
        work_through();
      });
      const double top = *std::max_element(log_likelihood_.begin(), log_likelihood_.begin() + Offset(n));
      if (top > largest_) {
        rescale(std::exp(largest_ - top));
        largest_ = top;
      }
      for (std::size_t r = 0; r < block; ++r) weights_[r] = r < n ? std::exp(log_likelihood_[r] - largest_) : 0.0;
      run_with(mixed_.problem.isa, [&] { use(n); });
    }
  }

  // The log-likelihood, and its gradient.
  double score(std::span<double> out) {
    double total = 0;
    std::ranges::fill(gradient_, 0.0);
    by_pair_.assign(pairs_.size(), 0.0);
    const auto rescale = [&](double factor) {
      total *= factor;
      for (double& value : gradient_) value *= factor;
      for (double& value : by_pair_) value *= factor;
    };
    for_blocks(rescale, [&](std::size_t) {
      total += block_sum(weights_.data());
      add_slopes();
      for (std::size_t p = 0; p < pairs_.size(); ++p) by_pair_[p] += block_sum(probabilities(p), weights_.data());
    });
    add_fixed();
    add_shifts();
    for (std::size_t c = 0; c < out.size(); ++c) out[c] = gradient_[c] / total;
    return largest_ + std::log(total / static_cast<double>(draws_.n_draws));
  }

  // The means of beta and of its square given the choices.
  void posterior(std::span<double> means, std::span<double> squares) {
    double total = 0;
    std::ranges::fill(means, 0.0);
    std::ranges::fill(squares, 0.0);
    const auto rescale = [&](double factor) {
      total *= factor;
      for (std::size_t j = 0; j < n_varying_; ++j) means[j] *= factor, squares[j] *= factor;
    };
    for_blocks(rescale, [&](std::size_t) {
      total += block_sum(weights_.data());
      for (std::size_t j = 0; j < n_varying_; ++j) {
        for (std::size_t r = 0; r < block; ++r) {
          const double weighted = weights_[r] * beta_[j * block + r];
          means[j] += weighted;
          squares[j] += weighted * beta_[j * block + r];
        }
      }
    });
    for (std::size_t j = 0; j < n_varying_; ++j) means[j] /= total, squares[j] /= total;
  }

  // The mean probabilities and logsums of the rows, which stand from the person's first row on.
  void predict(std::span<double> out, std::span<double> logsums) {
    const double share = 1 / static_cast<double>(draws_.n_draws);
    const std::size_t k = mixed_.problem.n_alternatives();
    for_blocks([](double) {},
               [&](std::size_t n) {
                 for (const Row& row : rows_) {
                   const std::size_t t = static_cast<std::size_t>(&row - rows_.data());
                   for (std::size_t p = row.first; p < row.last; ++p) {
                     for (std::size_t r = 0; r < n; ++r) out[t * k + pairs_[p].k] += share * probabilities(p)[r];
                   }
                   const double* reference = probabilities(row.first);
                   for (std::size_t r = 0; r < n; ++r) {
                     double u = references_[t * (n_varying_ + 1)];
                     for (std::size_t j = 0; j < n_varying_; ++j) {
                       u += references_[t * (n_varying_ + 1) + 1 + j] * beta_[j * block + r];
                     }
                     logsums[t] += share * (u - std::log(reference[r]));
                   }
                 }
               });
  }

 private:
  struct Pair {
    std::size_t k;
    Offset listed;
  };
  struct Row {
    std::size_t i, first, last;  // the first pair is the one that the others are related to
  };

  double* probabilities(std::size_t p) { return exponentials_.data() + p * block; }

  double theta_at(Index place) const { return place < 0 ? 0.0 : theta_[static_cast<std::size_t>(place)]; }

  // The means of v over the draws.
  void set_locations() {
    const std::size_t d = mixed_.problem.form.n_chooser_features;
    const double* x = mixed_.problem.data.X.data() + as_size(mixed_.persons[person_]) * d;
    locations_.assign(n_varying_, 0.0);
    for (std::size_t j = 0; j < n_varying_; ++j) {
      locations_[j] = theta_at(mixed_.columns[j]);
      for (std::size_t f = 0; f < d; ++f) locations_[j] += theta_at(mixed_.shifts[j * d + f]) * x[f];
    }
  }

  void add_pairs(std::size_t i) {
    const ChoiceData& data = mixed_.problem.data;
    Offset at = data.indptr.empty() ? 0 : data.indptr[i];
    const Offset end = data.indptr.empty() ? 0 : data.indptr[i + 1];
    if (data.listed_only) {
      for (; at < end; ++at) add_pair(i, as_size(data.alternatives[as_size(at)]), at);
      return;
    }
    for (std::size_t k = 0; k < data.n_alternatives(); ++k) {
      const bool listed = at < end && as_size(data.alternatives[as_size(at)]) == k;
      add_pair(i, k, listed ? at : -1);
      at += listed ? 1 : 0;
    }
  }

  void add_pair(std::size_t i, std::size_t k, Offset listed) {
    const ChoiceData& data = mixed_.problem.data;
    double u = data.constants[k];
    if (listed >= 0 && !data.offsets.empty()) u += data.offsets[as_size(listed)];
    if (listed >= 0 && !data.log_weights.empty()) u += data.log_weights[as_size(listed)];
    if (u == -std::numeric_limits<double>::infinity()) return;
    pairs_.push_back({k, listed});
    design_.resize(pairs_.size() * n_varying_);
    double* design = design_.data() + (pairs_.size() - 1) * n_varying_;
    for_terms(mixed_.problem, i, k, listed, [&](std::size_t c, double value) {
      if (varying_[c] < 0) {
        u += theta_[c] * value;
      } else {
        design[varying_[c]] += value;
      }
    });
    fixed_.push_back(u);
  }

  double coefficient(std::size_t j, double v) const { return mixed_.signs[j] == 0 ? v : mixed_.signs[j] * vec::exp(v); }

  // The utility of a pair at the middle of the distribution.
  double middle(std::size_t p) const {
    double u = fixed_[p];
    for (std::size_t j = 0; j < n_varying_; ++j) u += design_[p * n_varying_ + j] * coefficient(j, locations_[j]);
    return u;
  }

  void move_first(std::size_t first, std::size_t p) {
    std::swap(pairs_[first], pairs_[p]);
    std::swap(fixed_[first], fixed_[p]);
    const auto design = design_.begin();
    const auto n = Offset(n_varying_);
    std::swap_ranges(design + Offset(first) * n, design + Offset(first + 1) * n, design + Offset(p) * n);
  }

  void relate_to_references() {
    references_.clear();
    for (const Row& row : rows_) {
      references_.push_back(fixed_[row.first]);
      const auto design = design_.begin() + Offset(row.first * n_varying_);
      references_.insert(references_.end(), design, design + Offset(n_varying_));
      const double* reference = references_.data() + references_.size() - n_varying_;
      for (std::size_t p = row.first; p < row.last; ++p) {
        fixed_[p] -= reference[-1];
        for (std::size_t j = 0; j < n_varying_; ++j) design_[p * n_varying_ + j] -= reference[j];
      }
    }
  }

  // The coefficients of draws from `begin` on; where there are fewer than a block, of zeros behind them.
  void draw(std::size_t begin, std::size_t n) {
    const float* values = draws_.values.data() + (person_ - draws_.begin) * n_varying_ * draws_.n_draws + begin;
    for (std::size_t j = 0; j < n_varying_; ++j) {
      double* z = z_.data() + j * block;
      for (std::size_t r = 0; r < block; ++r) z[r] = r < n ? values[j * draws_.n_draws + r] : 0.0F;
      double* beta = beta_.data() + j * block;
      std::fill_n(beta, block, locations_[j]);
      for (std::size_t l = 0; l <= j; ++l) {
        const double spread = theta_at(mixed_.spreads[j * n_varying_ + l]);
        for (std::size_t r = 0; r < block; ++r) beta[r] += spread * z_[l * block + r];
      }
      for (std::size_t r = 0; mixed_.signs[j] != 0 && r < block; ++r) beta[r] = coefficient(j, beta[r]);
    }
  }

  // Probabilities of all pairs, the log-likelihoods of the draws, and minus their derivatives by beta.
  void work_through() {
    std::ranges::fill(log_likelihood_, 0.0);
    std::ranges::fill(by_beta_, 0.0);
    for (const Row& row : rows_) {
      const std::size_t n = row.last - row.first - 1;
      const double* design = design_.data() + (row.first + 1) * n_varying_;
      double* const e = probabilities(row.first + 1);
      for (std::size_t p = 0; p < n; ++p) std::fill_n(e + p * block, block, fixed_[row.first + 1 + p]);
      add_block({design, 1, n_varying_}, beta_.data(), n_varying_, block, 0, n, e);
      std::ranges::fill(sum_, 1.0);
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t r = 0; r < block; ++r) {
          const double u = e[p * block + r];
          e[p * block + r] = vec::exp(u < most_apart ? u : most_apart);
          sum_[r] += e[p * block + r];
        }
      }
      for (std::size_t r = 0; r < block; ++r) {
        log_likelihood_[r] -= vec::log(sum_[r]);
        sum_[r] = 1 / sum_[r];
      }
      std::ranges::copy(sum_, e - block);
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t r = 0; r < block; ++r) e[p * block + r] *= sum_[r];
      }
      add_block({design, n_varying_, 1}, e, n, block, 0, n_varying_, by_beta_.data());
    }
  }

  // The gradient by theta_j and L_jl.
  void add_slopes() {
    for (std::size_t j = 0; j < n_varying_; ++j) {
      double* slopes = by_beta_.data() + j * block;
      for (std::size_t r = 0; r < block; ++r) {
        slopes[r] *= -weights_[r] * (mixed_.signs[j] == 0 ? 1.0 : beta_[j * block + r]);
      }
      gradient_[static_cast<std::size_t>(mixed_.columns[j])] += block_sum(slopes);
      for (std::size_t l = 0; l <= j; ++l) {
        const Index place = mixed_.spreads[j * n_varying_ + l];
        if (place >= 0) gradient_[static_cast<std::size_t>(place)] += block_sum(slopes, z_.data() + l * block);
      }
    }
  }

  // The gradient by coefficients that do not vary, of that by utilities.
  void add_fixed() {
    for (const Row& row : rows_) {
      double others = 0;
      const auto add = [&](std::size_t p, double by_utility) {
        for_terms(mixed_.problem, row.i, pairs_[p].k, pairs_[p].listed, [&](std::size_t c, double value) {
          if (varying_[c] < 0) gradient_[c] += by_utility * value;
        });
      };
      for (std::size_t p = row.first; p < row.last; ++p) {
        others += by_pair_[p];
        add(p, -by_pair_[p]);
      }
      add(row.first, others);
    }
  }

  void add_shifts() {
    const std::size_t d = mixed_.problem.form.n_chooser_features;
    for (std::size_t j = 0; j < n_varying_; ++j) {
      for (std::size_t f = 0; f < d; ++f) {
        const Index place = mixed_.shifts[j * d + f];
        if (place < 0) continue;
        gradient_[static_cast<std::size_t>(place)] +=
            gradient_[static_cast<std::size_t>(mixed_.columns[j])] * mixed_.problem.data.X[rows_[0].i * d + f];
      }
    }
  }

  const MixedProblem& mixed_;
  const PersonDraws& draws_;
  std::span<const double> theta_;
  std::size_t n_varying_, person_ = 0;
  std::vector<Offset> varying_;  // which of the coefficients that vary each one is, or -1
  std::vector<Row> rows_;
  std::vector<Pair> pairs_;
  std::vector<double> fixed_, design_, references_, locations_, exponentials_, by_pair_;
  std::vector<double> z_, beta_, by_beta_, log_likelihood_, weights_, sum_, gradient_;
  double largest_ = 0;
};

}  // namespace manyclass::mixed
