// What augment and reduce asks of the noise of utilities, y = argmax_k z_k + e_k with independent e_k, beside what
// math/noise.hpp has: phi is its density, Phi its distribution function (Ruiz et al. 2018, eq. 4-6).
#pragma once

#include <cmath>

#include "manyclass/math/logistic.hpp"
#include "manyclass/math/noise.hpp"
#include "manyclass/math/normal.hpp"

namespace manyclass {

// Not for Gumbel noise, whose bound has a closed form.
template <class Noise>
struct UtilityNoise;

template <>
struct UtilityNoise<NormalNoise> {
  static double log_density(double e) { return NormalNoise::log_density(e); }
  static double slope(double e) { return -e; }                          // (log phi)'
  static float log_cdf(float t, float) { return vec::log_ndtr(t); }     // shares most of its work with the hazard
  static float hazard(float t) { return vec::log_ndtr_derivative(t); }  // (log Phi)'
  // -(log Phi)'' = h (h + t), in ]0, 1[; far to the left, where h + t cancels, rounding would leave that interval.
  static float curvature(float t, float hazard) {
    const float c = hazard * (hazard + t);
    return c < 0.0F ? 0.0F : (c > 1.0F ? 1.0F : c);
  }

  // How far q moves, by `gain` of the way, where the mean slope of log p~ under q is `slope` and its curvature, by what
  // q's scale is to become, -1 / variance: Newton's step. The slope falls and is convex (-e and a sum of hazards), so
  // from below it stops short of the root; from above it goes at most to e = 0, the root without classes.
  static double move(double gain, double slope, double variance) { return gain * variance * slope; }

  // The hazard is convex, so a linearly implicit step stops short of the implicit one.
  static constexpr bool convex_hazard = true;
};

template <>
struct UtilityNoise<LogisticNoise> {
  static double log_density(double e) { return log_expit(e) + log_expit(-e); }
  static double slope(double e) { return -std::tanh(0.5 * e); }
  // log sigma(t) = log(1 - h) = t + log h with h = sigma(-t); the logarithm is of a number of at least 1/2, so that its
  // absolute error is that of a float near 1.
  static float log_cdf(float t, float hazard) {
    const bool right = t > 0.0F;
    return vec::log(right ? 1.0F - hazard : hazard) + (right ? 0.0F : t);
  }
  static float hazard(float t) { return vec::log_expit_derivative(t); }
  static float curvature(float, float hazard) { return hazard * (1.0F - hazard); }

  // The slope is R - 1 with R = E[2 sigma(-e) + sum_S alpha sigma(d - e)]. Every term falls with e, though no faster
  // than e^-e, so e + log R stops short of R = 1 from either side; where e is far above all d it is there at once.
  // (Newton's step is of no use far below them: sigma is flat.) With a gain, e^e is averaged as eta is for the softmax.
  static double move(double gain, double slope, double) { return std::log1p(gain * slope); }

  static constexpr bool convex_hazard = false;  // it is at most 1
};

}  // namespace manyclass
