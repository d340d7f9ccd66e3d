// Augment and reduce (Ruiz, Titsias, Dieng & Blei 2018): with the noise e of the label's utility as a latent variable,
// the log-probability of a label is bounded from below by a sum over classes, of which a few can be drawn:
//
//   log p(y) >= E_q[log phi(e) + sum_{k != y} log Phi(e - d_k)] + H(q),   d_k = z_k - z_y            (eq. 7)
//
// For Gumbel noise, the softmax, q and the expectation are known: q = Gumbel(u, 1), -bound = u + e^-u A - 1 (eq. 8).
// For others q is of a location-scale family, e = mu + s v, and expectations are sums over nodes of v. A visit moves q
// first and takes the gradient in the scores at the new q. The loss is -bound there, as the selected classes show it.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/objective/u_rules.hpp"
#include "manyclass/objective/utility_noise.hpp"

namespace manyclass {

// The softmax.
struct GumbelBound {
  MovingAverage average;

  Gradient gradient(const SampledPoint& point, double& u, std::span<float> g) const {
    Gradient found = DoubleSum<MovingAverage>{0, average}.gradient(point, u, g);
    found.loss = loss(u, found.loss);
    return found;
  }

  static double loss(double u, double log_a) { return u + std::exp(log_a - u) - 1; }
};

// The family of q, by its standard member.
struct LocalFamily {
  // The rule for expectations: E f(v) = sum_j weights_j f(nodes_j).
  std::vector<double> nodes, weights;
  double mean, variance;  // by the rule
  double entropy;
  double largest_scale;  // s of the best q for the noise itself, which other classes can only narrow
  double (*draw)(Rng&) = nullptr;
};

// q = mu + s v of one point.
struct Local {
  double& mu;
  double& s;
};

// Expectations under q of the terms of the selected classes.
struct ClassTerms {
  std::span<float> hazards;     // E (log Phi)'(e - d_k): the gradient in z_k, but for alpha
  std::span<float> curvatures;  // its slope in d_k
  std::span<float> log_cdfs;    // E log Phi(e - d_k)
};

// What the bound has beside them.
struct BoundTerms {
  double known = 0;  // E log phi(e) + H(q)
  double decay = 0;  // E e^-e
};

// sum_S alpha (log Phi)'(e - d_k); `terms` is scratch.
template <class Noise>
double sum_of_hazards(const SampledPoint& point, double e, std::span<float> terms) {
  const auto base = static_cast<float>(e + point.label_score);
  for (std::size_t k = 0; k < point.size(); ++k) terms[k] = point.alpha[k] * Noise::hazard(base - point.scores[k]);
  return sum_of(terms);
}

// Adds the terms at a node e of q, or makes it the first.
template <class Noise>
void add_node(const SampledPoint& point, double e, double weight, bool first, const ClassTerms& terms,
              BoundTerms& bound) {
  bound.known += weight * Noise::log_density(e);
  bound.decay += weight * std::exp(-e);
  const auto base = static_cast<float>(e + point.label_score);
  const auto w = static_cast<float>(weight), old = first ? 0.0F : 1.0F;
  float* const hazards = terms.hazards.data();
  float* const curvatures = terms.curvatures.data();
  float* const log_cdfs = terms.log_cdfs.data();
  for (std::size_t k = 0; k < point.size(); ++k) {
    const float t = base - point.scores[k];
    const float hazard = Noise::hazard(t);
    hazards[k] = old * hazards[k] + w * hazard;
    curvatures[k] = old * curvatures[k] + w * Noise::curvature(t, hazard);
    log_cdfs[k] = old * log_cdfs[k] + w * Noise::log_cdf(t, hazard);
  }
}

// q by natural gradients, expectations by the rule.
//
// At the best q, E[g] = 0 and E[g v] + 1/s = 0, g being the slope of log phi(e) + sum_S alpha log Phi(e - d_k): so
// 1/s^2 moves by `gain` of the way to -E[g (v - E v)] / s, and mu by what Noise::move says. For normal noise and q the
// two are the natural-gradient step. As g falls in e the precision stays positive, and as g is linear in the sampled
// sum, q settles where it would with all classes.
template <class Noise>
struct NaturalBound {
  std::shared_ptr<const LocalFamily> family;
  Gain gain;  // of 1 + t at visit t = 1, 2, ...

  BoundTerms terms(const SampledPoint& point, Local q, const ClassTerms& terms) const {
    const LocalFamily& f = *family;
    move(point, q, terms.hazards);
    BoundTerms bound{f.entropy + std::log(q.s)};
    for (std::size_t j = 0; j < f.nodes.size(); ++j) {
      add_node<Noise>(point, q.mu + q.s * f.nodes[j], f.weights[j], j == 0, terms, bound);
    }
    return bound;
  }

 private:
  void move(const SampledPoint& point, Local q, std::span<float> scratch) const {
    const LocalFamily& f = *family;
    double slope = 0, narrowing = 0;
    for (std::size_t j = 0; j < f.nodes.size(); ++j) {
      const double e = q.mu + q.s * f.nodes[j];
      const double slope_at = f.weights[j] * (Noise::slope(e) + sum_of_hazards<Noise>(point, e, scratch));
      slope += slope_at;
      narrowing -= slope_at * (f.nodes[j] - f.mean);
    }
    const double g = gain.at(2 + point.visits);
    const double precision = (1 - g) / (q.s * q.s) + g * std::fmax(narrowing, 0.0) / q.s;
    const double s = std::fmin(1 / std::sqrt(precision), f.largest_scale);
    q.mu += (q.s - s) * f.mean + Noise::move(g, slope, s * s * f.variance);
    q.s = s;
  }
};

// The paper's Algorithm 2: a gradient step on (mu, gamma), s = log(1 + e^gamma), from one draw of q (eq. 9), and the
// terms from another. The entropy is log s and a constant.
template <class Noise>
struct MonteCarloBound {
  std::shared_ptr<const LocalFamily> family;
  Gain rate;  // of 1 + t at visit t = 1, 2, ...

  BoundTerms terms(const SampledPoint& point, Local q, const ClassTerms& terms) const {
    Rng rng(point.key, point.item);
    const double v = family->draw(rng), e = q.mu + q.s * v;
    const double slope = Noise::slope(e) + sum_of_hazards<Noise>(point, e, terms.hazards);
    const double step = rate.at(2 + point.visits);
    const double ds_dgamma = -std::expm1(-q.s);  // sigma(gamma) = 1 - e^-s
    const double gamma = q.s + std::log(ds_dgamma);
    q.mu += step * slope;
    q.s = log_add(0, gamma + step * (slope * v + 1 / q.s) * ds_dgamma);

    BoundTerms bound{family->entropy + std::log(q.s)};
    add_node<Noise>(point, q.mu + q.s * family->draw(rng), 1, true, terms, bound);
    return bound;
  }
};

// How q of a point moves at a visit.
inline constexpr Parameter local_power{
    "gain_power", 0.9, 0, unbounded, false, "The gain of visit t = 1, 2, ... is gain * (1 + t)**-gain_power."};
inline constexpr Facts natural_facts{
    .name = "natural",
    .sentence = "By natural gradients, with expectations by quadrature.",
    .parameters = {{"gain", 1, 0, 1, true, "Share of the way to the newest estimate, before it falls with the visits."},
                   local_power}};
inline constexpr Facts monte_carlo_facts{
    .name = "monte_carlo",
    .sentence = "By a gradient step from one draw of q.",
    .source = "Ruiz et al., ICML 2018, Algorithm 2",
    .parameters = {{"gain", 0.01, 0, unbounded, true, "Step size of q, before it falls with the visits."},
                   local_power}};
inline constexpr std::array<Facts, 2> local_step_facts{natural_facts, monte_carlo_facts};

// The families of q: location and scale of any of the noises.
inline constexpr std::span<const Facts> local_family_facts = noise_facts;

// How to draw from the standard member of a family.
using DrawLocal = double (*)(Rng&);
inline DrawLocal local_draw_named(std::string_view family) {
  return with_part<DrawLocal>(Alternatives<NoiseKind>{}, "local_family", family,
                              []<class Noise>() -> DrawLocal { return Noise::draw; });
}

}  // namespace manyclass
