// The Wright omega function of a real number: omega(x) = W(e^x), the root w > 0 of w + log w = x.
//
// All versions solve for u = log w, that is u + e^u = x. Given u0 near the root and w0 = e^u0, the residual
// x - u0 - w0 is a sum of exact terms. Where w << |x|, u0 = x and nothing is lost; x - w - log w would lose |x| ulp
// there. The root is w = w0 (1 + e) with
//   log(1 + e) + w0 e = r,   r = x - u0 - w0.
// With rho = r / (1 + w0) and q = 1 / (1 + w0) this reads e = rho + q (e^2/2 - e^3/3 + e^4/4 - ...), whose series is
//   e = rho + rho^2 q/2 + rho^3 q (q/2 - 1/3) + rho^4 q (5 q^2/8 - 5 q/6 + 1/4) + O(q rho^5).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "manyclass/math/elementary.hpp"

namespace manyclass {

namespace omega {

// The value of e by the series above. The first term left out is less than q rho^5 / 4.
template <class Real>
inline Real relative_correction(Real r, Real w) {
  const Real q = Real(1) / (Real(1) + w);
  const Real rho = r * q;
  const Real cubic = q * Real(0.5) - Real(1.0 / 3);
  const Real quartic = q * (q * Real(0.625) - Real(5.0 / 6)) + Real(0.25);
  return rho + rho * rho * q * (Real(0.5) + rho * (cubic + rho * quartic));
}

// log y to 0.035 for normal y > 0. The bits of a float, read as an integer, are its logarithm to base 2, with the part
// of the mantissa made linear.
inline float rough_log(float y) {
  return static_cast<float>(std::bit_cast<std::int32_t>(y)) * 8.2629582e-8F - 88.004692F;
}

// A guess of log omega(x), to 0.005 for x <= 4 by a quartic, and to 0.06 above by log(x - 0.8 log x).
inline float rough_log_omega(float x) {
  const float t = x < -4.0F ? -4.0F : x;  // omega(-4) = 0.018, and the quartic is 0.014 there
  const float omega = 0.570572F + t * (0.35830861F + t * (0.0693871F + t * (0.00026833F - t * 0.00081643F)));
  const float large = rough_log(x - 0.8F * rough_log(x));
  return x < 4.0F ? x - omega : large;
}

}  // namespace omega

// omega(x) to 2 ulp for every real x, subnormal results included.
inline double wright_omega(double x) {
  if (std::isnan(x)) return x;
  if (x < -50) return std::exp(x);  // omega = e^x (1 - e^x + ...), and e^-50 < 2^-54
  if (x > 0x1p60) return x;         // omega = x - log x + ..., and log x < 2^-54 x
  // The guess leaves rho <= 0.06, so e is off by less than 2e-7. A second round from the new guess, log(1 + e) further
  // on, leaves less than (2e-7)^5.
  const double u0 = static_cast<double>(omega::rough_log_omega(static_cast<float>(x)));
  const double w0 = std::exp(u0);
  const double u = u0 + std::log1p(omega::relative_correction(x - u0 - w0, w0));
  const double w = std::exp(u);
  return w + w * omega::relative_correction(x - u - w, w);
}

inline float wright_omega(float x) { return static_cast<float>(wright_omega(static_cast<double>(x))); }

namespace vec {

// omega(x) as straight-line arithmetic (see elementary.hpp), to 2 ulp; subnormal results to 2 spacings.
inline float wright_omega(float x) {
  // e^-104 rounds to 0, and -infinity would make x - u a NaN.
  const float y = x < -104.0F ? -104.0F : x;
  const float u = omega::rough_log_omega(y);
  const float w = exp(u);
  // Here |rho| <= 0.055. The coefficient of rho^5 is nearly 0 at x = 4, where q is greatest among the rough guesses.
  // The series was found to leave out less than 2^-27.
  const float result = w + w * omega::relative_correction(y - u - w, w);
  return x > 0x1p30F ? x : result;  // log x < 2^-25 x
}

}  // namespace vec

}  // namespace manyclass
