// The principal branch of Lambert's W of a real number z >= -1/e: the root w >= -1 of w e^w = z.
#pragma once

#include <cmath>
#include <limits>

#include "manyclass/math/wright_omega.hpp"

namespace manyclass {

namespace lambert {

// W(z) for z <= -0.3, given s = e z + 1 in (0, 0.185).
//
// With v = 1 + w, w e^w = z reads 1 + (v - 1) e^v = s, and
//   1 + (v - 1) e^v = v^2 (1/2 + v/3 + v^2/8 + ... + v^n / (n! (n + 2)) + ...)
// has positive terms only, so v keeps the relative accuracy of s.
inline double near_branch_point(double s) {
  constexpr int n_terms = 15;  // v < 0.52, so the rest is below 2^-57 of the sum
  // The inverted series v = p - p^2/3 + 11/72 p^3 - ... gives v to 0.2 % here.
  const double p = std::sqrt(2 * s);
  double v = p * (1 - p * (1.0 / 3 - p * (11.0 / 72 - p * (43.0 / 540 - p * (769.0 / 17280)))));
  // A Newton step takes a relative error t of v to (1 + v) t^2 / 2: 2e-3, 3e-6, 7e-12, 4e-23. The last step is added to
  // w, because v - 1 may have fewer bits than v.
  double step = 0;
  for (int i = 0; i < 3; ++i) {
    v -= step;
    double sum = 0;
    double term = 1;  // v^n / n!
    for (int n = 0; n < n_terms; ++n) {
      sum += term / (n + 2);
      term *= v / (n + 1);
    }
    step = (v * v * sum - s) / (v * std::exp(v));
  }
  return (v - 1) - step;
}

}  // namespace lambert

// W(z) to 3 ulp for every real z, subnormal ones included, and NaN for z < -1/e. The double nearest to -1/e lies below
// it by 1.2e-17. It stands for -1/e, and its W is -1.
inline double lambert_w(double z) {
  constexpr double branch_point = -0.36787944117144233;
  if (std::isnan(z)) return z;
  if (z < branch_point) return std::numeric_limits<double>::quiet_NaN();
  if (z == branch_point) return -1;
  if (z <= -0.3) {
    // e is the sum of two doubles. The fused product loses nothing where e z cancels against 1.
    constexpr double e_high = 2.7182818284590451;
    constexpr double e_low = 1.4456468917292502e-16;
    return lambert::near_branch_point(std::fma(z, e_high, 1.0) + z * e_low);
  }
  if (z > 2) return wright_omega(std::log(z));
  if (std::fabs(z) < 1e-9) return z - z * z;  // W = z - z^2 + 3/2 z^3 - ...
  // A Pade approximant is right to 5 %. Then the series of wright_omega.hpp, log(1 + e) + w e = r with
  // r = log(z / w) - w, takes a relative error t of w to less than t^5.
  double w = z * (1 + z * (4.0 / 3)) / (1 + z * (7.0 / 3 + z * (5.0 / 6)));
  for (int step = 0; step < 2; ++step) {
    w += w * omega::relative_correction(std::log(z / w) - w, w);
  }
  return w;
}

inline float lambert_w(float z) {
  constexpr float branch_point = -0.36787945F;  // this float lies below -1/e by 9.1e-9, and stands for it
  return z == branch_point ? -1.0F : static_cast<float>(lambert_w(static_cast<double>(z)));
}

}  // namespace manyclass
