// exp and log of one float as straight-line arithmetic, to 2 ulp: no branch, table or call.
//
// So a loop over them is vectorised for whatever instruction set the loop is compiled for (core/simd.hpp). The
// coefficients minimise the largest relative error of the result on the reduced interval. The error that they leave is
// given beside them.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace manyclass::vec {

// Adding and taking away 1.5 * 2^23 rounds |t| < 2^22 to an integer, which also stands in the low bits of the sum. SSE2
// has no instruction that rounds, hence the trick.
inline constexpr float kRounder = 12582912.0F;

// 2^k for -126 <= k <= 127. Integers are unsigned, here and below, because a NaN's bits may overflow.
inline float power_of_two(std::int32_t k) { return std::bit_cast<float>((static_cast<std::uint32_t>(k) + 127U) << 23); }

// e^x for every float x, to 2 ulp; subnormal results to 1 spacing. It is 0 below -103.98 and infinity above 88.73.
//
// x = k log 2 + r with |r| <= (log 2) / 2, so e^x = 2^k e^r. 2^k is applied as two factors. For k = 128 and k < -126 no
// normal float has that exponent, while 2^k e^r may still be a float.
inline float exp(float x) {
  constexpr float log2_e = 1.44269504F;
  constexpr float log_2_high = 0.693359375F;  // 9 bits after the point: k * log_2_high is exact
  constexpr float log_2_low = -2.12194440e-4F;
  // Both ends round to 0 and infinity; a NaN passes both comparisons as it is.
  const float low = x < -104.0F ? -104.0F : x;
  const float y = low > 89.0F ? 89.0F : low;
  const float shifted = y * log2_e + kRounder;
  const auto k =
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRounder));
  const float n = shifted - kRounder;
  const float r = (y - n * log_2_high) - n * log_2_low;
  // approximates (e^r - 1 - r) / r^2 and leaves an error of 3e-9 of e^r
  const float p = 0.49999994F + r * (0.16666520F + r * (0.041668408F + r * (0.0083689215F + r * 0.0013814175F)));
  const float e_r = 1.0F + (r + r * r * p);
  // A NaN's k is arbitrary, but the NaN is in e_r too.
  const std::int32_t half = k >> 1;
  return e_r * power_of_two(half) * power_of_two(k - half);
}

// e^x, but 0 where that is no normal float, below -87. Sums lose nothing by it, and a processor's arithmetic on
// subnormal numbers takes a hundred times as long: where a model is sure, most classes have such weights.
inline float normal_exp(float x) {
  const float value = exp(x < -87.0F ? -87.0F : x);
  return x < -87.0F ? 0.0F : value;
}

// log x for every float x, to 2 ulp. It is -infinity at 0 and NaN below.
//
// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt 2), so log x = k log 2 + log(1 + f).
inline float log(float x) {
  constexpr float log_2_high = 0.693359375F;  // 9 bits after the point: k * log_2_high is exact
  constexpr float log_2_low = -2.12194440e-4F;
  constexpr float smallest_normal = std::numeric_limits<float>::min();
  constexpr std::uint32_t sqrt_half = 0x3f3504f3U;
  const float y = x < smallest_normal ? x * 8388608.0F : x;  // 2^23
  const float k_of_scale = x < smallest_normal ? -23.0F : 0.0F;
  const auto bits = std::bit_cast<std::uint32_t>(y);
  const std::int32_t k = static_cast<std::int32_t>(bits - sqrt_half) >> 23;
  const float f = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(k) << 23)) - 1.0F;
  const float n = static_cast<float>(k) + k_of_scale;
  // approximates (log(1 + f) - f + f^2 / 2) / f^3 and leaves an error of 8e-10 of log(1 + f)
  const float p = 0.33333313F +
                  f * (-0.25000009F +
                       f * (0.20002119F +
                            f * (-0.16667996F +
                                 f * (0.14219552F +
                                      f * (-0.12405587F + f * (0.11888161F + f * (-0.11675661F + f * 0.06746652F)))))));
  const float ff = f * f;
  const float finite = n * log_2_high + (f + (n * log_2_low + (ff * f * p - 0.5F * ff)));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float not_negative = x == 0.0F ? -infinity : (x < infinity ? finite : x);
  return x < 0.0F ? std::numeric_limits<float>::quiet_NaN() : not_negative;
}

}  // namespace manyclass::vec
