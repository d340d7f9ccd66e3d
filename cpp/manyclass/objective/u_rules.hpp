// Rules for u in the double sum: how u_i moves before the gradient in W is taken, and whether its own gradient follows.
#pragma once

#include <cmath>
#include <concepts>
#include <span>

#include "manyclass/core/facts.hpp"
#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

// A rule for u is a small value with
//
//   double before(double u, point, sum, terms) const   the u at which the gradient is taken,
//   static constexpr bool gradient_step                whether u then moves by eta_u times its own gradient,
//
// where `sum` is the fresh estimate A of the normaliser, of one label 1 + sum_S alpha e^d, and `terms` those of S in
// it, scaled as `sum` says. It changes nothing but what it returns. Its parameters are its first members, as its facts
// are.
template <class Rule>
concept RuleForU = requires(const Rule rule, double u, const SampledPoint& point, const SampledSum& sum,
                            std::span<const float> terms) {
  { rule.before(u, point, sum, terms) } -> std::same_as<double>;
  { Rule::gradient_step } -> std::convertible_to<bool>;
};

// Plain SGD on (u, W).
struct Vanilla {
  static constexpr Facts facts{
      .name = "sgd",
      .sentence = "Explicit steps on the double sum, in u and W.",
      .source = "Fagan & Iyengar 2018, eq. 7; Raman et al. 2016 for formulation 'raman'",
      .flags = {flag::u, flag::u_step, flag::formulations, flag::bound},
  };
  static constexpr bool gradient_step = true;
  double before(double u, const SampledPoint&, const SampledSum&, std::span<const float>) const { return u; }
};

// U-max (Fagan & Iyengar 2018, Algorithm 1; arXiv Algorithm 2 with distinct classes): a u more than delta below a
// bound on u* is too small for certain and is moved up to that bound.
struct UMax {
  static constexpr Facts facts{
      .name = "umax",
      .sentence = "Explicit steps on the double sum, with a u that is surely too small raised first.",
      .source = "Fagan & Iyengar 2018, Algorithm 1",
      .flags = {flag::u, flag::u_step, flag::formulations},
      .parameters = {{"delta", 1, 0, unbounded, false, "How far below its bound u may lie before it is raised."}},
  };
  static constexpr bool gradient_step = true;
  double delta;
  double before(double u, const SampledPoint& point, const SampledSum& sum, std::span<const float> terms) const {
    const double bound = bound_from_below(point, sum, terms);
    return u < bound - delta ? bound : u;
  }
};

// How far a moving average goes to its newest value: gain t^-power, though at least `floor`.
struct Gain {
  double gain = 1;
  double power = 0;
  double floor = 0;  // where every class is selected, sums are exact and 1 is the best one
  double at(double t) const { return std::fmax(floor, gain * std::pow(t, -power)); }
};

// e^u <- (1 - g) e^u + g A with the gain g of t = 1 + visits: a moving average of A itself.
struct MovingAverage {
  static constexpr bool gradient_step = false;
  Gain gain;
  double before(double u, const SampledPoint& point, const SampledSum& sum, std::span<const float>) const {
    const double g = gain.at(1 + point.visits);
    return g >= 1 ? sum.log_a : log_add(std::log1p(-g) + u, std::log(g) + sum.log_a);
  }
};

// SOX: a constant gain.
struct ConstantAverage : MovingAverage {
  static constexpr Facts facts{
      .name = "ema",
      .sentence = "Explicit steps in W at a u whose exponential is a moving average of the sampled sum.",
      .source = "Wang & Yang, ICML 2022 (SOX)",
      .biased = true,
      .flags = {flag::u, flag::formulations},
      .parameters = {{"gain", 0.5, 0, 1, true, "Weight of the newest sampled sum; the bias is O(gain)."}},
  };
};

// The gain (Ruiz et al. 2018, section 4) and its power of the natural-gradient step, for solvers and local steps.
inline constexpr Parameter natural_gain{"gain", 1, 0, 1, true, "Share of the way to the newest estimate, at visit 1."};
inline constexpr Parameter natural_power{
    "gain_power", 0.9, 0, unbounded, false, "The gain of visit t = 1, 2, ... is gain * t**-gain_power."};

// The natural-gradient step of augment and reduce for the softmax, with e^u its eta. With gain 1 the first visit
// overwrites.
struct NaturalAverage : MovingAverage {
  static constexpr Facts facts{
      .name = "augment_reduce",
      .sentence = "Explicit steps in W at a u moved by natural gradients, with the gain (1 + t)^-0.9 at visit t.",
      .source = "Ruiz et al., ICML 2018, section 3.1",
      .flags = {flag::u, flag::overwrites_u, flag::formulations},
      .parameters = {natural_gain, natural_power},
  };
};

// The inner step of stochastic composition. The accelerated method (Wang, Liu & Fang 2017) takes the sum at an iterate
// that is extrapolated from the one of the average's last update. Here each point has an average of its own, whose last
// update is a pass ago and saw other classes: their scores then are not known, so that this is the plain method.
struct CompositionAverage : MovingAverage {
  static constexpr Facts facts{
      .name = "scgd",
      .sentence =
          "Stochastic composition: explicit steps in W, the sampled sum averaged with a gain that falls slower.",
      .source = "Wang, Fang & Liu, Mathematical Programming 2017",
      .flags = {flag::u, flag::overwrites_u, flag::formulations},
      .parameters = {natural_gain,
                     {"gain_power", 2.0 / 3, 0, unbounded, false,
                      "The gain of visit t = 1, 2, ... is gain * t**-gain_power; slower than the steps of W fall."}},
  };
};

// SCENT (2026): the Bregman proximal point under e^-u with step size a = eta_u, e^u <- (1 + a A) / (a + e^-u).
struct Scent {
  static constexpr Facts facts{
      .name = "scent",
      .sentence = "Explicit steps in W, a Bregman proximal step in e^-u.",
      .source = "SCENT 2026",
      .flags = {flag::u, flag::u_step, flag::formulations},
  };
  static constexpr bool gradient_step = false;
  double before(double u, const SampledPoint& point, const SampledSum& sum, std::span<const float>) const {
    const double log_gain = std::log(point.eta_u);
    return log_add(0, log_gain + sum.log_a) - log_add(log_gain, -u);
  }
};

}  // namespace manyclass
