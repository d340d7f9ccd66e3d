// The mean of iterates of a linear model: which passes they are taken after, their sum, and the model that it is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "manyclass/weights/accumulate.hpp"

namespace manyclass {

// Seconds on two threads of what a visit costs, a weight that is moved in it and a weight that is summed; only the
// ratios matter (bench_step.py).
inline constexpr double seconds_per_visit = 1e-6, seconds_per_moved = 4e-10, seconds_per_summed = 4e-10;

// What a pass over points with `n_stored` values is taken to cost, where each value meets `n_met` classes.
inline double pass_seconds(std::size_t n_points, std::size_t n_stored, std::size_t n_met) {
  return static_cast<double>(n_points) * seconds_per_visit +
         static_cast<double>(n_stored) * static_cast<double>(n_met) * seconds_per_moved;
}

// The passes, from 1, after which iterates are averaged: all of them or, of a "suffix", those of the second half; and
// so few of them, the last one included, that it takes at most a tenth of the time of the steps.
struct AveragedPasses {
  static constexpr double most = 0.1;

  int last = 0, start = 0, between = 1;  // from `last` down to above `start`

  static AveragedPasses of(int n_passes, bool averages, bool suffix, std::size_t n_weights, double of_a_pass) {
    AveragedPasses made{n_passes, suffix ? n_passes / 2 : 0, 1};
    if (!averages) made.start = n_passes;
    const double between = std::ceil(seconds_per_summed * static_cast<double>(n_weights) / (most * of_a_pass));
    made.between = static_cast<int>(std::clamp(between, 1.0, static_cast<double>(std::numeric_limits<int>::max())));
    return made;
  }

  bool has(int n_pass) const { return n_pass > start && n_pass <= last && (last - n_pass) % between == 0; }
};

// Sums of the weights and of the intercepts, which are the caller's.
struct IterateSum {
  std::span<float> total, intercept_total;
  std::size_t n_columns = 0;
  bool of_columns = false;  // whether columns are classes

  void add(std::span<const float> weights, std::span<const float> intercept, std::span<const float> scale,
           int n_threads) const {
    if (intercept.size() != intercept_total.size()) throw std::invalid_argument("the intercepts do not fit their sum");
    accumulate(total, weights, n_columns, scale, of_columns, n_threads);
    constexpr double end = std::numeric_limits<float>::max();  // as accumulate holds sums
    for (std::size_t k = 0; k < intercept.size(); ++k) {
      const double sum = static_cast<double>(intercept_total[k]) + static_cast<double>(intercept[k]);
      intercept_total[k] = static_cast<float>(std::clamp(sum, -end, end));
    }
  }

  // Leaves the mean of n iterates in the weights.
  void write_mean(std::size_t n, std::span<float> weights, std::span<float> intercept) const {
    if (weights.size() != total.size() || intercept.size() != intercept_total.size() || n == 0) {
      throw std::invalid_argument("the weights do not fit their sum");
    }
    const auto share = static_cast<float>(1 / static_cast<double>(n));
    for (std::size_t i = 0; i < total.size(); ++i) weights[i] = total[i] * share;
    for (std::size_t k = 0; k < intercept.size(); ++k) intercept[k] = intercept_total[k] * share;
  }
};

}  // namespace manyclass
