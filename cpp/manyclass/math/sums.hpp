// Sums and maxima of floats, in lanes: reductions that the compiler may not reorder itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

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

}  // namespace manyclass
