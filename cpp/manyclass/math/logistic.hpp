// The standard logistic distribution: its distribution function F(x) = 1 / (1 + e^-x) ("expit"), log F, the derivative
// of log F, and the inverse of F ("logit"). Only exponentials of negative numbers are taken, so nothing overflows.
#pragma once

#include <cmath>

#include "manyclass/math/elementary.hpp"
#include "manyclass/math/elementary_double.hpp"

namespace manyclass {

// log F(x) = -log(1 + e^-x), to 2 ulp for every real x. A subnormal result is right to 1 spacing.
inline double log_expit(double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }

// (log F)'(x) = 1 - F(x) = F(-x) = 1 / (1 + e^x), to 3 ulp for every real x. A subnormal result is right to 1 spacing.
inline double log_expit_derivative(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? 1 : e) / (1 + e);
}

// The distribution function F(x).
inline double expit(double x) { return log_expit_derivative(-x); }

// F(t) by one exponential, which may be infinite, and without a branch.
inline double sigmoid(double t) { return 1.0 / (1.0 + std::exp(-t)); }

// log(1 + e^t).
inline double softplus(double t) { return (t > 0 ? t : 0.0) + std::log1p(std::exp(-std::fabs(t))); }

// The inverse F^-1(p) = log(p / (1 - p)). It is NaN outside [0, 1].
inline double logit(double p) {
  // Near 1/2 the quotient is near 1, and 2 p - 1 is exact.
  return p > 0.25 && p < 0.75 ? std::log1p((2 * p - 1) / (1 - p)) : std::log(p / (1 - p));
}

inline float log_expit(float x) { return static_cast<float>(log_expit(static_cast<double>(x))); }
inline float log_expit_derivative(float x) { return static_cast<float>(log_expit_derivative(static_cast<double>(x))); }
inline float expit(float x) { return static_cast<float>(expit(static_cast<double>(x))); }
inline float logit(float p) { return static_cast<float>(logit(static_cast<double>(p))); }

// The same functions as straight-line arithmetic (see elementary.hpp).
namespace vec {

// log F(x) for every float x, to 3 ulp.
inline float log_expit(float x) {
  const float e = exp(-std::fabs(x));
  // log(1 + e) = log y + log((1 + e) / y), where y - 1 is exact
  const float y = 1.0F + e;
  const float log1p_e = log(y) + (e - (y - 1.0F)) / y;
  return (x < 0.0F ? x : 0.0F) - log1p_e;
}

// (log F)'(x) = 1 / (1 + e^x) for every float x, to 4 ulp. 0 may stand for a subnormal result.
inline float log_expit_derivative(float x) { return 1.0F / (1.0F + exp(x)); }

// The two functions of doubles, to a relative error of 1e-14.
inline double log_expit(double x) {
  const double e = exp(-std::fabs(x));
  const double y = 1.0 + e;
  const double log1p_e = log(y) + (e - (y - 1.0)) / y;
  return (x < 0.0 ? x : 0.0) - log1p_e;
}

inline double log_expit_derivative(double x) {
  const double e = exp(-std::fabs(x));
  return (x < 0.0 ? 1.0 : e) / (1.0 + e);
}

}  // namespace vec

// 1 / (1 + e^-t), for loops: see namespace vec.
inline float sigmoid(float t) { return 1 / (1 + vec::exp(-t)); }

// log(1 + e^t), for loops; its absolute error is that of a float near 1.
inline float softplus(float t) { return std::fmax(t, 0.0F) + vec::log(1 + vec::exp(-std::fabs(t))); }

}  // namespace manyclass
