// The sampled sum A = 1 + sum_S alpha e^d, without overflow.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "manyclass/math/elementary.hpp"
#include "manyclass/objective/sampled_point.hpp"

namespace manyclass {

inline constexpr std::size_t sum_lanes = 16;

// The sum of 16 running sums, in pairs: four additions deep where one after the other would be sixteen.
inline double sum_of_lanes(const float (&lanes)[sum_lanes]) {
  double pairs[sum_lanes / 2];
  for (std::size_t l = 0; l < sum_lanes / 2; ++l) {
    pairs[l] = static_cast<double>(lanes[l]) + static_cast<double>(lanes[l + sum_lanes / 2]);
  }
  return ((pairs[0] + pairs[4]) + (pairs[1] + pairs[5])) + ((pairs[2] + pairs[6]) + (pairs[3] + pairs[7]));
}

// Sums floats in 16 lanes of float per block of 512, blocks in double: the error of a lane is below 32 ulp of its own
// sum, whatever the length.
inline double sum_of(std::span<const float> values) {
  constexpr std::size_t block = 512;
  double total = 0;
  std::size_t n = 0;
  while (n < values.size()) {
    const std::size_t end = std::min(values.size(), n + block);
    float sums[sum_lanes] = {};
    for (; n + sum_lanes <= end; n += sum_lanes) {
      for (std::size_t l = 0; l < sum_lanes; ++l) sums[l] += values[n + l];
    }
    for (; n < end; ++n) sums[0] += values[n];
    total += sum_of_lanes(sums);
  }
  return total;
}

inline float max_of(std::span<const float> values, float start) {
  constexpr std::size_t lanes = 16;
  float most[lanes];
  std::fill_n(most, lanes, start);
  std::size_t n = 0;
  for (; n + lanes <= values.size(); n += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) most[l] = values[n + l] > most[l] ? values[n + l] : most[l];
  }
  for (; n < values.size(); ++n) most[0] = values[n] > most[0] ? values[n] : most[0];
  return *std::max_element(most, most + lanes);
}

struct SampledSum {
  double shift;   // M >= 0, at least every d_k
  double scaled;  // sum_S alpha e^(d - M)
  double log_a;   // log A
};

// Writes alpha_k e^(d_k - M) to `terms`; d_k = z_k - z_y.
inline SampledSum sampled_sum(const SampledPoint& point, std::span<float> terms) {
  const auto z_y = static_cast<float>(point.label_score);
  const float top = max_of(point.scores, z_y);
  const double shift = static_cast<double>(top) - point.label_score;
  for (std::size_t k = 0; k < point.size(); ++k) {
    terms[k] = point.alpha[k] * vec::exp(point.scores[k] - top);
  }
  const double scaled = sum_of(terms);
  return {shift, scaled, shift + std::log(std::exp(-shift) + scaled)};
}

// log(1 + sum_S e^d), each class once: never above log A of all classes. `terms` are those of `sum`.
inline double bound_from_below(const SampledPoint& point, const SampledSum& sum, std::span<const float> terms) {
  double once = 0;
  for (std::size_t k = 0; k < point.size(); ++k) {
    once += point.alpha[k] > 0 ? static_cast<double>(terms[k] / point.alpha[k]) : 0.0;
  }
  return sum.shift + std::log(std::exp(-sum.shift) + once);
}

// log(e^a + e^b).
inline double log_add(double a, double b) {
  const double top = std::fmax(a, b);
  return top + std::log1p(std::exp(std::fmin(a, b) - top));
}

// 1 / (1 + e^-t).
inline float sigmoid(float t) { return 1 / (1 + vec::exp(-t)); }

}  // namespace manyclass
