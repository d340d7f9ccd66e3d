// Sums and maxima of floats, in lanes: reductions that the compiler may not reorder itself.
//
// Lanes are vectors of 16 bytes, which every instruction set adds as they are: GCC 12 takes a loop over an array of
// sixteen sums apart, one number at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "manyclass/core/vectors.hpp"

namespace manyclass {

inline constexpr std::size_t sum_lanes = 16;

using FourFloats = Vector<float, 16>;
inline constexpr std::size_t n_fours = sum_lanes / 4;

// The sum of 16 running sums, in pairs: four additions deep where one after the other would be sixteen.
inline double sum_of_lanes(const FourFloats (&sums)[n_fours]) {
  using TwoDoubles = Vector<double, 16>;
  TwoDoubles twos[2] = {};  // lanes 0, 4, 8, 12 and 1, 5, 9, 13 in pairs; 2, 6, 10, 14 and 3, 7, 11, 15
#pragma GCC unroll 2
  for (std::size_t f = 0; f < 2; ++f) {
    const FourFloats &low = sums[f], &high = sums[f + 2];
    const TwoDoubles first = {static_cast<double>(low[0]), static_cast<double>(low[1])};
    const TwoDoubles second = {static_cast<double>(high[0]), static_cast<double>(high[1])};
    const TwoDoubles third = {static_cast<double>(low[2]), static_cast<double>(low[3])};
    const TwoDoubles fourth = {static_cast<double>(high[2]), static_cast<double>(high[3])};
    twos[0] += first + second;
    twos[1] += third + fourth;
  }
  return (twos[0][0] + twos[0][1]) + (twos[1][0] + twos[1][1]);
}

// Sums floats in 16 lanes of float per block of 512, blocks in double: the error of a lane is below 32 ulp of its own
// sum, whatever the length.
inline double sum_of(std::span<const float> values) {
  constexpr std::size_t block = 512;
  double total = 0;
  std::size_t n = 0;
  while (n < values.size()) {
    const std::size_t end = std::min(values.size(), n + block);
    FourFloats sums[n_fours] = {};
    for (; n + sum_lanes <= end; n += sum_lanes) {
#pragma GCC unroll 4
      for (std::size_t f = 0; f < n_fours; ++f) {
        FourFloats four;
        std::memcpy(&four, values.data() + n + 4 * f, sizeof four);
        sums[f] += four;
      }
    }
    float first = sums[0][0];
    for (; n < end; ++n) first += values[n];
    sums[0][0] = first;
    total += sum_of_lanes(sums);
  }
  return total;
}

// The sum of products in double precision, which holds floats as they are, in lanes that the compiler keeps in vectors.
template <class Float>
double sum_in_lanes(std::span<const Float> a, std::span<const Float> b) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {};
  std::size_t n = 0;
  for (; n + lanes <= a.size(); n += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += static_cast<double>(a[n + l]) * static_cast<double>(b[n + l]);
  }
  for (; n < a.size(); ++n) sums[0] += static_cast<double>(a[n]) * static_cast<double>(b[n]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

inline double sum_of_products(std::span<const float> a, std::span<const float> b) { return sum_in_lanes(a, b); }
inline double sum_of_products(std::span<const double> a, std::span<const double> b) { return sum_in_lanes(a, b); }

inline void raise(FourFloats& most, const FourFloats& four) { most = four > most ? four : most; }

// Raises sixteen running maxima by the values in whole lines; returns how many those are. A NaN among the values is
// left out.
inline std::size_t raise_maxima(std::span<const float> values, FourFloats (&most)[n_fours]) {
  std::size_t n = 0;
  for (; n + sum_lanes <= values.size(); n += sum_lanes) {
#pragma GCC unroll 4
    for (std::size_t f = 0; f < n_fours; ++f) {
      FourFloats four;
      std::memcpy(&four, values.data() + n + 4 * f, sizeof four);
      raise(most[f], four);
    }
  }
  return n;
}

// The largest of `start` and the values.
inline float max_of(std::span<const float> values, float start) {
  FourFloats most[n_fours];
  for (FourFloats& four : most) four = FourFloats{start, start, start, start};
  std::size_t n = raise_maxima(values, most);
  raise(most[0], most[2]);
  raise(most[1], most[3]);
  raise(most[0], most[1]);
  float top = most[0][0];
  for (std::size_t l = 1; l < 4; ++l) top = most[0][l] > top ? most[0][l] : top;
  for (; n < values.size(); ++n) top = values[n] > top ? values[n] : top;
  return top;
}

// The largest magnitude; infinite where a value is no number. Floats without their sign have the order of their bits,
// above which are infinity and then NaN.
inline float largest_of(std::span<const float> values) {
  using FourInts = Vector<std::int32_t, 16>;
  constexpr std::int32_t sign = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t infinite = std::bit_cast<std::int32_t>(std::numeric_limits<float>::infinity());
  FourInts most[n_fours] = {};
  std::size_t n = 0;
  for (; n + sum_lanes <= values.size(); n += sum_lanes) {
#pragma GCC unroll 4
    for (std::size_t f = 0; f < n_fours; ++f) {
      FourInts four;
      std::memcpy(&four, values.data() + n + 4 * f, sizeof four);
      four &= ~sign;
      most[f] = four > most[f] ? four : most[f];
    }
  }
#pragma GCC unroll 4
  for (std::size_t f = 1; f < n_fours; ++f) most[0] = most[f] > most[0] ? most[f] : most[0];
  std::int32_t top = most[0][0];
  for (std::size_t l = 1; l < 4; ++l) top = std::max(top, most[0][l]);
  for (; n < values.size(); ++n) top = std::max(top, std::bit_cast<std::int32_t>(std::fabs(values[n])));
  return std::bit_cast<float>(std::min(top, infinite));
}

}  // namespace manyclass
