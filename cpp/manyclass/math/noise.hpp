// The noise of a random utility model, y = argmax_k psi_k + eps_k: the functions that an integral over the maximum
// needs.
//
// F is the distribution function of eps_k and f its density.
//
//   log_cdf    log F(x)                        slope    (log F)'(x) = f(x) / F(x)
//   log_slope  log of the slope                bend     (log F)''(x) / slope = (log slope)'(x), given the slope
#pragma once

#include <cmath>

#include "manyclass/math/logistic.hpp"
#include "manyclass/math/normal.hpp"

namespace manyclass {

// Gumbel noise makes the model a softmax, which has a closed form. So only the sampler asks for this noise.
struct GumbelNoise {
  static double log_cdf(double x) { return -vec::exp(-x); }
  static double log_density(double x) { return -x - vec::exp(-x); }
};

struct NormalNoise {
  static constexpr double log_density_at_0 = -0.91893853320467274178;
  static constexpr double widest = 1;  // the largest spacing of nodes that resolves the density

  static double log_cdf(double x) { return vec::log_ndtr(x); }
  static double log_density(double x) { return log_density_at_0 - 0.5 * x * x; }
  static double slope(double x) { return vec::log_ndtr_derivative(x); }
  static double log_slope(double x) { return vec::log_ndtr_log_derivative(x); }
  // -(x + slope) lies in (-inf, 0) and tends to 0 on the left, where the sum cancels.
  static double bend(double x, double slope) { return x < -1e6 ? 1 / x : -(x + slope); }
  static double bend_of_bend(double x, double slope) {
    const double b = bend(x, slope);
    return x > 38 ? -1 : -1 - slope * b;
  }
};

struct LogisticNoise {
  static constexpr double widest = 1.6;

  static double log_cdf(double x) { return vec::log_expit(x); }
  static double log_density(double x) { return vec::log_expit(x) + vec::log_expit(-x); }
  static double slope(double x) { return vec::log_expit_derivative(x); }
  static double log_slope(double x) { return vec::log_expit(-x); }
  static double bend(double x, double) { return -vec::log_expit_derivative(-x); }
  static double bend_of_bend(double x, double slope) { return -slope * vec::log_expit_derivative(-x); }
};

}  // namespace manyclass
