// exp and log of one double as straight-line arithmetic, as elementary.hpp has them of one float.
//
// The code uses unsigned integers, and no conversion between integers and doubles: AVX2 has none for 64 bits.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "manyclass/math/polynomial.hpp"

namespace manyclass::vec {

// Adding and taking away 1.5 * 2^52 rounds |t| < 2^51 to an integer, which also stands in the low bits of the sum.
inline constexpr double kDoubleRounder = 6755399441055744.0;

// 2^k, where k is the integer that `shifted` = k + kDoubleRounder holds, -1022 <= k <= 1023.
inline double power_of_two_shifted(double shifted) {
  return std::bit_cast<double>(
      (std::bit_cast<std::uint64_t>(shifted) - std::bit_cast<std::uint64_t>(kDoubleRounder) + 1023U) << 52);
}

// e^x for every double x, to 3 ulp; subnormal results to 1 spacing. The method is that of exp of a float.
inline double exp(double x) {
  constexpr double log2_e = 1.4426950408889634074;
  constexpr double log_2_high = 0.693145751953125;  // 20 bits: k * log_2_high is exact
  constexpr double log_2_low = 1.42860682030941723212e-6;
  // The coefficients are 1/n!. The first term left out, r^14 / 14! with |r| < 0.347, is below 5e-18.
  constexpr std::array<double, 12> taylor{1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                                          1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                                          1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  // Both ends round to 0 and infinity; a NaN passes both comparisons as it is.
  const double low = x < -746.0 ? -746.0 : x;
  const double y = low > 710.0 ? 710.0 : low;
  const double n = (y * log2_e + kDoubleRounder) - kDoubleRounder;
  const double r = (y - n * log_2_high) - n * log_2_low;
  const double e_r = 1.0 + (r + r * r * polynomial(r, taylor));
  const double half = n * 0.5 + kDoubleRounder;
  const double rest = (n - (half - kDoubleRounder)) + kDoubleRounder;
  return e_r * power_of_two_shifted(half) * power_of_two_shifted(rest);
}

// log x for every double x, to 4 ulp. It is -infinity at 0 and NaN below.
//
// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt 2), and log(1 + f) = 2 artanh s with s = f / (2 + f), |s| < 0.172.
inline double log(double x) {
  constexpr double log_2_high = 0.693145751953125;
  constexpr double log_2_low = 1.42860682030941723212e-6;
  constexpr std::uint64_t sqrt_half = 0x3fe6a09e667f3bcdU;
  constexpr std::uint64_t bias = 1023;
  constexpr double two_52 = 4503599627370496.0;
  // The first term left out, s^20 / 21, is below 3e-17.
  constexpr std::array<double, 9> artanh{1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                         1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19};
  constexpr double smallest_normal = std::numeric_limits<double>::min();
  const double y = x < smallest_normal ? x * two_52 * 4 : x;
  const double k_of_scale = x < smallest_normal ? -54.0 : 0.0;
  const auto bits = std::bit_cast<std::uint64_t>(y);
  const std::uint64_t biased = (bits - sqrt_half + (bias << 52)) >> 52;  // k + 1023, positive
  const double k = std::bit_cast<double>(biased | std::bit_cast<std::uint64_t>(two_52)) - (two_52 + 1023.0);
  const double f = std::bit_cast<double>(bits - ((biased - bias) << 52)) - 1.0;
  const double n = k + k_of_scale;
  const double s = f / (2.0 + f);
  const double ss = s * s;
  const double finite = n * log_2_high + (2.0 * s + (2.0 * s * ss * polynomial(ss, artanh) + n * log_2_low));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double not_negative = x == 0.0 ? -infinity : (x < infinity ? finite : x);
  return x < 0.0 ? std::numeric_limits<double>::quiet_NaN() : not_negative;
}

}  // namespace manyclass::vec
