// The logarithm of the gamma function and its derivative, for x > 0.
//
// Both are led to x >= 10 by Gamma(x + 1) = x Gamma(x), where the first term that Stirling's series leaves out is below
// 1e-15. std::lgamma writes a sign to a variable of the whole program, which threads must not share.
#pragma once

#include <cmath>
#include <numbers>

namespace manyclass {

inline constexpr double least_of_stirling = 10;

// To an absolute error of a few units in the last place of the larger of 20 and the value.
inline double log_gamma(double x) {
  double product = 1;
  for (; x < least_of_stirling; ++x) product *= x;
  const double y = 1 / (x * x);
  const double series =
      (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y * (1.0 / 1680 - y * (1.0 / 1188 - y * 691.0 / 360360))))) / x;
  return (x - 0.5) * std::log(x) - x + 0.5 * std::log(2 * std::numbers::pi) + series - std::log(product);
}

// To an absolute error of a few units in the last place of the larger of 1 and the value, but for x near 0, where it is
// relative.
inline double digamma(double x) {
  double below = 0;
  for (; x < least_of_stirling; ++x) below += 1 / x;
  const double y = 1 / (x * x);
  const double series =
      y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691.0 / 32760)))));
  return std::log(x) - 1 / (2 * x) - series - below;
}

}  // namespace manyclass
