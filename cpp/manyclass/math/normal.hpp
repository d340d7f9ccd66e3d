// The standard normal distribution far into both tails: log Phi and its derivative phi / Phi, the inverse Mills ratio.
//
// Both rest on Mills' ratio M(t) = (1 - Phi(t)) / phi(t), which is smooth, positive and falls like 1 / t. Phi itself
// underflows below -38, but these do not:
//   log Phi(-t) = log(M(t) / sqrt(2 pi)) - t^2 / 2,   (log Phi)'(-t) = 1 / M(t)           for t >= 0,
//   log Phi(t) = log(1 - phi(t) M(t)),                (log Phi)'(t) = phi(t) / (1 - phi(t) M(t)).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "manyclass/math/elementary.hpp"
#include "manyclass/math/elementary_double.hpp"
#include "manyclass/math/polynomial.hpp"

namespace manyclass {

namespace normal {

inline constexpr double inverse_root_2_pi = 0.39894228040143267794;

// M(t) (t + 3/4) / sqrt(2 pi) of t >= 0 lies in [0.37, 0.45]. It is computed as a polynomial in
// s = (t - 21/4) / (t + 21/4), which takes [0, inf] to [-1, 1]. The polynomial interpolates at 45 Chebyshev points and
// is cut after degree 22; it is off by less than 3e-17.
inline constexpr double mills_shift = 0.75;
inline constexpr double mills_centre = 5.25;
inline constexpr std::array<double, 23> mills_coefficients{
    0.44092938511615722,   -0.05550488680881588,    0.005440921005563682,   0.026376291479755463,
    -0.036666704695225473, 0.031328748572329642,    -0.019780498681326593,  0.0093762236410612391,
    -0.003092410690180408, 0.00048300586877457132,  0.00013111794034017627, -9.660585201350739e-5,
    1.2270793398791193e-5, 8.9725879429404183e-6,   -3.4384265419081934e-6, -6.4287509495979428e-7,
    5.7412375787242853e-7, 3.4427724588803659e-8,   -8.6879490151489007e-8, -7.9473748416980901e-10,
    1.1556065176106285e-8, -4.6210275136958622e-11, -9.6180205971326725e-10};

// M(t) (t + 3/4) / sqrt(2 pi) for 0 <= t < inf.
inline double scaled_mills(double t) { return polynomial((t - mills_centre) / (t + mills_centre), mills_coefficients); }

// -t^2 / 2 as high + low. t^2 / 2 alone has a rounding error of t^2 eps / 4, which its exponential would keep. `high`
// is exact, because its t has half the bits.
template <class Real>
struct HalfSquare {
  Real high, low;
};

inline HalfSquare<double> minus_half_square(double t) {
  const auto head = static_cast<double>(static_cast<float>(t));
  return {-0.5 * head * head, -0.5 * (t - head) * (t + head)};
}

inline HalfSquare<float> minus_half_square(float t) {
  const float head = std::bit_cast<float>(std::bit_cast<std::uint32_t>(t) & 0xfffff000U);
  return {-0.5F * head * head, -0.5F * (t - head) * (t + head)};
}

// phi(t) sqrt(2 pi) for 0 <= t <= 40.
inline double scaled_density(double t) {
  const auto [high, low] = minus_half_square(t);
  const double e = std::exp(high);
  return e + e * std::expm1(low);
}

inline constexpr double density_underflows = 40;  // phi(40) < e^-800

// 1 - Phi(t) for 0 <= t <= 40.
inline double upper_tail(double t) {
  // The rounding of t / sqrt 2 costs erfc t^2 eps / 2; the ratio has more roundings of its own.
  if (t < 1.25) return 0.5 * std::erfc(t * 0.70710678118654752440);
  return scaled_density(t) * (scaled_mills(t) / (t + mills_shift));
}

}  // namespace normal

// log Phi(x), to 4 ulp for every real x. A subnormal result is right to 2 spacings.
inline double log_ndtr(double x) {
  if (std::isnan(x)) return x;
  if (x > normal::density_underflows) return -0.0;
  if (x < -1e9) return (-0.5 * x) * x;  // log(M / sqrt(2 pi)) > -22 there, below 2^-54 of the rest
  const double t = std::fabs(x);
  if (x >= 0) return std::log1p(-normal::upper_tail(t));
  if (x > -1) return std::log(normal::upper_tail(t));
  return std::log(normal::scaled_mills(t) / (t + normal::mills_shift)) - (0.5 * t) * t;
}

// (log Phi)'(x) = phi(x) / Phi(x), to 4 ulp for every real x. A subnormal result is right to 2 spacings.
inline double log_ndtr_derivative(double x) {
  if (std::isnan(x)) return x;
  if (x > normal::density_underflows) return 0;
  if (x < -0x1p28) return -x;  // 1 / M(t) = t + 1/t - ..., and 1/t < 2^-55 t
  const double t = std::fabs(x);
  if (x < -1) return normal::inverse_root_2_pi * ((t + normal::mills_shift) / normal::scaled_mills(t));
  const double cdf = x < 0 ? normal::upper_tail(t) : 1 - normal::upper_tail(t);
  return normal::inverse_root_2_pi * (normal::scaled_density(t) / cdf);
}

inline float log_ndtr(float x) { return static_cast<float>(log_ndtr(static_cast<double>(x))); }
inline float log_ndtr_derivative(float x) { return static_cast<float>(log_ndtr_derivative(static_cast<double>(x))); }

// The same functions as straight-line arithmetic (see elementary.hpp). A loop that takes both functions of one x
// computes what they share once.
namespace vec {

namespace normal {

// M(t) = above / below to 5e-8. Among the rational functions that tend to 1 / t it has the smallest largest relative
// error. All coefficients are positive, so no sum cancels.
struct MillsRatio {
  float above, below;
};

inline MillsRatio mills_ratio(float t) {
  constexpr std::array above{87.0884025F, 82.9475525F, 37.0415112F, 8.86981199F, 1.0F};
  constexpr std::array below{69.4864887F, 121.624964F, 91.8523630F, 38.0403135F, 8.86982570F, 1.0F};
  // At 10^4 the fifth powers are far from overflow, and M(t) = 1/t to 1e-8.
  const float clipped = t > 1e4F ? 1e4F : t;
  return {polynomial(clipped, above), polynomial(clipped, below)};
}

// phi(t) for t >= 0, to 4 ulp of a normal float.
inline float density(float t) {
  const float clipped = t > 15.0F ? 15.0F : t;  // phi(15) rounds to 0
  const auto [high, low] = manyclass::normal::minus_half_square(clipped);
  // |low| < 0.06, so e^low = 1 + low + low^2/2 + low^3/6 to 6e-7 where phi < 1e-45, and to 3e-8 for t < 8
  const float e_low = 1.0F + low * (1.0F + low * (0.5F + low * (1.0F / 6)));
  return 0.398942280F * exp(high) * e_low;
}

}  // namespace normal

// log Phi(x) for every float x, to 10 ulp. A subnormal result is right to 2 spacings.
inline float log_ndtr(float x) {
  const float t = std::fabs(x);
  const auto [above, below] = normal::mills_ratio(t);
  const float mills = above / below;
  const float upper = normal::density(t) * mills;
  const float y = x < 0.0F ? 0.398942280F * mills : 1.0F - upper;
  // log(1 - upper) = log y + log((1 - upper) / y), where y - 1 is exact
  const float rest = x < 0.0F ? -0.5F * t * t : (-upper - (y - 1.0F)) / y;
  return log(y) + rest;
}

// (log Phi)'(x) for every float x, to 10 ulp. A subnormal result is right to 2 spacings.
inline float log_ndtr_derivative(float x) {
  const float t = std::fabs(x);
  const auto [above, below] = normal::mills_ratio(t);
  const float density = normal::density(t);
  // The value is below / above for x < 0, else phi / (1 - phi above / below).
  const float numerator = x < 0.0F ? below : density * below;
  const float denominator = x < 0.0F ? above : below - density * above;
  const float ratio = numerator / denominator;
  return x < -1e4F ? t : ratio;
}

// The functions of doubles have a relative error of 1e-14 for x < 30, and of 3e-12 above.
namespace normal {

struct ScaledTail {
  double mills;    // M(t) (t + 3/4) / sqrt(2 pi)
  double shifted;  // t + 3/4
  double density;  // phi(t) sqrt(2 pi)
};

inline ScaledTail scaled_tail(double t) {
  const double finite = t > 1e18 ? 1e18 : t;  // infinity would make s a NaN
  const double clipped = t > manyclass::normal::density_underflows ? manyclass::normal::density_underflows : t;
  const auto [high, low] = manyclass::normal::minus_half_square(clipped);
  // |low| < 40^2 / 2^24, so e^low = 1 + low + low^2 / 2 to 2e-13 at 40, and to 1e-16 for t < 10
  return {manyclass::normal::scaled_mills(finite), finite + manyclass::normal::mills_shift,
          exp(high) * (1.0 + low * (1.0 + 0.5 * low))};
}

}  // namespace normal

inline double log_ndtr(double x) {
  const double t = std::fabs(x);
  const auto [mills, shifted, density] = normal::scaled_tail(t);
  const double ratio = mills / shifted;
  const double upper = density * ratio;
  const double y = x < 0.0 ? ratio : 1.0 - upper;
  const double rest = x < 0.0 ? -0.5 * t * t : (-upper - (y - 1.0)) / y;
  return log(y) + rest;
}

inline double log_ndtr_derivative(double x) {
  const double t = std::fabs(x);
  const auto [mills, shifted, density] = normal::scaled_tail(t);
  const double numerator = x < 0.0 ? shifted : density * shifted;
  const double denominator = x < 0.0 ? mills : shifted - density * mills;
  const double ratio = manyclass::normal::inverse_root_2_pi * (numerator / denominator);
  return x < -0x1p28 ? t : ratio;
}

// The logarithm of the derivative of log Phi. It stays finite where the derivative underflows.
inline double log_ndtr_log_derivative(double x) {
  const double t = std::fabs(x);
  const auto [mills, shifted, density] = normal::scaled_tail(t);
  const double numerator = x < 0.0 ? shifted : 1.0;
  const double denominator = x < 0.0 ? mills : 1.0 - density * (mills / shifted);
  const double rest = x < 0.0 ? 0.0 : -0.5 * t * t;
  return log(manyclass::normal::inverse_root_2_pi * (numerator / denominator)) + rest;
}

}  // namespace vec

}  // namespace manyclass
