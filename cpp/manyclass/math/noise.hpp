// The noise of a random utility model, y = argmax_k psi_k + eps_k: the list of distributions, and the functions that an
// integral over the maximum needs.
//
// draw(rng) is a standard draw. F is the distribution function of eps_k and f its density.
//
//   log_cdf    log F(x)                        slope    (log F)'(x) = f(x) / F(x)
//   log_slope  log of the slope                bend     (log F)''(x) / slope = (log slope)'(x), given the slope
#pragma once

#include <cmath>
#include <string_view>
#include <variant>

#include "manyclass/core/facts.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/math/normal.hpp"

namespace manyclass {

// What a rule for expectations under a standard draw, or under a scaled one, needs to know of it.
struct StandardDraw {
  double entropy;    // in nats
  double low, high;  // beyond them even its 62nd moment has nothing left
  int n_nodes;       // Gauss nodes that leave errors of at most 1 % of augment and reduce's gradient in the scores, but
                     // where a point is all but certain
  double reach = 0, spacing = 0;  // of the nodes of a trapezoidal rule that errs by rounding only
};

// Gumbel noise makes the model a softmax, which has a closed form. So only the sampler asks for this noise.
struct GumbelNoise {
  static constexpr Facts facts{.name = "gumbel", .sentence = "Gumbel noise, whose choice model is the softmax."};
  static constexpr StandardDraw standard{1 + 0.57721566490153286061, -6, 200, 4};

  static double draw(Rng& rng) { return -std::log(-std::log(rng.inside())); }
  static double log_cdf(double x) { return -vec::exp(-x); }
  static double log_density(double x) { return -x - vec::exp(-x); }
};

struct NormalNoise {
  static constexpr Facts facts{.name = "normal", .sentence = "Normal noise, whose choice model is multinomial probit."};
  static constexpr double log_density_at_0 = -0.91893853320467274178;
  static constexpr StandardDraw standard{0.5 - log_density_at_0, -20, 20, 3, 9, 0.4};
  static constexpr double widest = 1;  // the largest spacing of nodes that resolves the density

  // Box & Muller 1958.
  static double draw(Rng& rng) {
    const double radius = std::sqrt(-2 * std::log(rng.inside()));
    return radius * std::cos(6.28318530717958647693 * rng.inside());
  }

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
  static constexpr Facts facts{.name = "logistic",
                               .sentence = "Logistic noise, whose choice model is multinomial logistic."};
  static constexpr double widest = 1.6;
  static constexpr StandardDraw standard{2, -200, 200, 5, 44, 0.45};

  static double draw(Rng& rng) { return logit(rng.inside()); }

  static double log_cdf(double x) { return vec::log_expit(x); }
  static double log_density(double x) { return vec::log_expit(x) + vec::log_expit(-x); }
  static double slope(double x) { return vec::log_expit_derivative(x); }
  static double log_slope(double x) { return vec::log_expit(-x); }
  static double bend(double x, double) { return -vec::log_expit_derivative(-x); }
  static double bend_of_bend(double x, double slope) { return -slope * vec::log_expit_derivative(-x); }
};

using NoiseKind = std::variant<GumbelNoise, NormalNoise, LogisticNoise>;

inline constexpr std::span<const Facts> noise_facts = Alternatives<NoiseKind>::facts;

inline NoiseKind noise_named(std::string_view name) {
  return with_part<NoiseKind>(Alternatives<NoiseKind>{}, "noise", name,
                              []<class Noise>() -> NoiseKind { return Noise{}; });
}

}  // namespace manyclass
