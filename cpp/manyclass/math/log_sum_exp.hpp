// log(sum_i e^z_i) without overflow: of two numbers, of a list, of scores that arrive one by one or in blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "manyclass/math/elementary.hpp"
#include "manyclass/math/elementary_double.hpp"

namespace manyclass {

// log(e^a + e^b).
inline double log_add(double a, double b) {
  const double top = std::fmax(a, b);
  return top + std::log1p(std::exp(std::fmin(a, b) - top));
}

// log sum_i e^z_i of a list that is not empty.
inline double log_sum_exp(std::span<const double> z) {
  // Each lane has its own running maximum and sum, because the compiler may not reorder these reductions itself.
  constexpr std::size_t lanes = 8;
  const std::size_t n_full = z.size() / lanes * lanes;
  double lane_max[lanes], lane_sum[lanes] = {};
  std::fill_n(lane_max, lanes, z[0]);
  for (std::size_t i = 0; i < n_full; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) lane_max[l] = z[i + l] > lane_max[l] ? z[i + l] : lane_max[l];
  }
  double top = z[0], sum = 0;
  for (const double max : lane_max) top = max > top ? max : top;
  for (std::size_t i = n_full; i < z.size(); ++i) top = z[i] > top ? z[i] : top;
  for (std::size_t i = 0; i < n_full; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) lane_sum[l] += vec::exp(z[i + l] - top);
  }
  for (const double part : lane_sum) sum += part;
  for (std::size_t i = n_full; i < z.size(); ++i) sum += vec::exp(z[i] - top);
  return top + std::log(sum);
}

// The sum of scores as they arrive, in one pass.
//
// The scores so far have sum e^z_i = sum * e^max. Before the first score the value is log 0 = -infinity.
//
// A score of -infinity adds 0, a score of +infinity makes the value +infinity, and a NaN makes it NaN.
struct LogSumExp {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;

  double value() const { return max + std::log(sum); }

  // z - value(), also where the scores are so large that the logarithm of the sum is lost in their rounding.
  double log_share(double z) const { return (z - max) - std::log(sum); }

  void add(double z) { merge({z, 1}); }

  // Terms e^(z - max) are floats and their sums doubles. The value is off by at most 3e-7, of which the rounding of
  // z - max to float is a third.
  void add(std::span<const float> z) {
    // Each lane has its own running maximum and sum, because the compiler may not reorder these reductions itself.
    constexpr std::size_t lanes = 16;
    const std::size_t n_full = z.size() / lanes * lanes;
    float lane_max[lanes];
    for (std::size_t l = 0; l < lanes; ++l) lane_max[l] = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < n_full; i += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) lane_max[l] = z[i + l] > lane_max[l] ? z[i + l] : lane_max[l];
    }
    float top = -std::numeric_limits<float>::infinity();
    for (std::size_t l = 0; l < lanes; ++l) top = lane_max[l] > top ? lane_max[l] : top;
    for (std::size_t i = n_full; i < z.size(); ++i) top = z[i] > top ? z[i] : top;

    // infinity - infinity would be a NaN. With 0 in place of the maximum, scores of -infinity add 0 and those of
    // +infinity add infinity.
    const float base = std::isinf(top) ? 0.0F : top;
    double lane_sum[lanes] = {};
    for (std::size_t i = 0; i < n_full; i += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) lane_sum[l] += static_cast<double>(vec::exp(z[i + l] - base));
    }
    double block = 0;
    for (std::size_t l = 0; l < lanes; ++l) block += lane_sum[l];
    for (std::size_t i = n_full; i < z.size(); ++i) block += static_cast<double>(vec::exp(z[i] - base));
    merge({static_cast<double>(top), std::isinf(top) && block > 0 ? 1.0 : block});
  }

  void merge(const LogSumExp& other) {
    if (other.max == max) {
      sum += other.sum;  // also where both are infinite, so that their difference is a NaN
    } else if (other.max < max) {
      sum += other.sum * std::exp(other.max - max);
    } else {
      sum = sum * std::exp(max - other.max) + other.sum;
      max = other.max;
    }
  }
};

}  // namespace manyclass
