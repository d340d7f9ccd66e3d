// How u_i moves: put right before the gradient is taken, and then by its own gradient or not (`gradient_step`).
//
// `sum` is the fresh estimate A = 1 + sum_S alpha e^d.
#pragma once

#include <cmath>

#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

// Plain SGD on (u, W).
struct Vanilla {
  static constexpr bool gradient_step = true;
  double before(double u, const SampledPoint&, const SampledSum&, std::span<const float>) const { return u; }
};

// U-max (Fagan & Iyengar 2018, Algorithm 1; arXiv Algorithm 2 with distinct classes): a u more than delta below a
// bound on u* is too small for certain and is moved up to that bound.
struct UMax {
  static constexpr bool gradient_step = true;
  double delta;
  double before(double u, const SampledPoint& point, const SampledSum& sum, std::span<const float> terms) const {
    const double bound = bound_from_below(point, sum, terms);
    return u < bound - delta ? bound : u;
  }
};

// e^u <- (1 - g) e^u + g A with g = gain (1 + visits)^-power: a moving average of A itself.
//
// power 0 is SOX (Wang & Yang, ICML 2022); gain 1, power 0.9 is augment-and-reduce's natural-gradient step with
// e^u = eta (Ruiz et al. 2018, section 3.1), the first visit overwriting; gain 1, power 2/3 is the inner step of
// stochastic composition (Wang, Fang & Liu 2017), without its extrapolated iterate, which differs from W only on the
// features and classes of the step before.
//
// `floor` is the smallest gain: where every class is selected, A is exact and 1 is the best one.
struct MovingAverage {
  static constexpr bool gradient_step = false;
  double gain;
  double power;
  double floor = 0;
  double before(double u, const SampledPoint& point, const SampledSum& sum, std::span<const float>) const {
    const double g = std::fmax(floor, gain * std::pow(1 + point.visits, -power));
    return g >= 1 ? sum.log_a : log_add(std::log1p(-g) + u, std::log(g) + sum.log_a);
  }
};

// SCENT (2026): the Bregman proximal point under e^-u with step size a = eta_u, e^u <- (1 + a A) / (a + e^-u).
struct Scent {
  static constexpr bool gradient_step = false;
  double before(double u, const SampledPoint& point, const SampledSum& sum, std::span<const float>) const {
    const double log_gain = std::log(point.eta_u);
    return log_add(0, log_gain + sum.log_a) - log_add(log_gain, -u);
  }
};

}  // namespace manyclass
