// Choice models of one set of utilities u: the loss -log P(y), its derivative by every utility, and the inclusive
// value.
//
//   Gumbel noise     P(k) = e^{u_k} / sum e^u                                   (multinomial logit)
//   nests            P(k) = e^{u_k / l_g - I_g} e^{l_g I_g} / sum_h e^{l_h I_h}, I_g = log sum_{k in g} e^{u_k / l_g}
//   normal, logistic P(y) = integral f(e) prod_{k != y} F(e + u_y - u_k) de
//
// A rule's set(u, y, c) overwrites c by dloss / du. y at or beyond the size of u means that no choice is known: the
// loss is then 0, and c holds the probabilities where the rule has them in closed form.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "manyclass/math/elementary_double.hpp"
#include "manyclass/math/noise.hpp"
#include "manyclass/utility/maximum.hpp"

namespace manyclass {

struct ChoiceLoss {
  double loss = 0, inclusive_value = 0;
};

inline double largest_of(std::span<const double> u) {
  double top = -std::numeric_limits<double>::infinity();
  for (const double value : u) top = value > top ? value : top;
  return top;
}

// p = e^{u - top} in place of u's copy, and its sum.
inline double exponentials(std::span<const double> u, double top, std::span<double> p) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {};
  const std::size_t n = u.size(), full = n / lanes * lanes;
  for (std::size_t k = 0; k < full; k += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) {
      p[k + l] = vec::exp(u[k + l] - top);
      sums[l] += p[k + l];
    }
  }
  double sum = 0;
  for (std::size_t k = full; k < n; ++k) {
    p[k] = vec::exp(u[k] - top);
    sum += p[k];
  }
  for (const double part : sums) sum += part;
  return sum;
}

struct GumbelChoice {
  ChoiceLoss set(std::span<const double> u, std::size_t y, std::span<double> c) {
    const double top = largest_of(u);
    const double sum = exponentials(u, top, c);
    const double value = top + std::log(sum), share = 1 / sum;
    for (double& p : c) p *= share;
    if (y >= u.size()) return {0, value};
    c[y] -= 1;
    return {(top - u[y]) + std::log(sum), value};
  }
};

// `nests` has the nest of each member of u.
class NestedChoice {
 public:
  explicit NestedChoice(std::span<const double> dissimilarity)
      : lambda_(dissimilarity),
        value_(lambda_.size()),
        top_(lambda_.size()),
        share_(lambda_.size()),
        mean_(lambda_.size()),
        slopes_(lambda_.size()) {}

  std::span<const Index> nests;

  ChoiceLoss set(std::span<const double> u, std::size_t y, std::span<double> c) {
    const double none = -std::numeric_limits<double>::infinity();
    std::fill(top_.begin(), top_.end(), none);
    for (std::size_t k = 0; k < u.size(); ++k) top_[nest(k)] = std::max(top_[nest(k)], u[k] / lambda_[nest(k)]);
    std::fill(value_.begin(), value_.end(), 0.0);
    std::fill(mean_.begin(), mean_.end(), 0.0);
    for (std::size_t k = 0; k < u.size(); ++k) {
      const std::size_t g = nest(k);
      c[k] = top_[g] == none ? 0.0 : std::exp(u[k] / lambda_[g] - top_[g]);
      value_[g] += c[k];
      if (c[k] > 0) mean_[g] += c[k] * u[k];
    }
    double best = none;
    for (std::size_t g = 0; g < lambda_.size(); ++g) {
      if (value_[g] > 0) mean_[g] /= value_[g];
      share_[g] = value_[g];  // what a member's share is divided by
      value_[g] = value_[g] > 0 ? top_[g] + std::log(value_[g]) : none;
      if (value_[g] > none) best = std::max(best, lambda_[g] * value_[g]);
    }
    double sum = 0;
    for (std::size_t g = 0; g < lambda_.size(); ++g) {
      if (value_[g] > none) sum += std::exp(lambda_[g] * value_[g] - best);
    }
    const double log_sum = best + std::log(sum);
    const bool known = y < u.size();
    const std::size_t own = known ? nest(y) : 0;
    const double gain = known ? (lambda_[own] - 1) / lambda_[own] : 0;
    for (std::size_t k = 0; k < u.size(); ++k) {
      const std::size_t g = nest(k);
      if (c[k] == 0) continue;
      const double within = c[k] / share_[g];
      c[k] = std::exp(lambda_[g] * value_[g] - log_sum) * within;
      if (known && g == own) c[k] -= gain * within;
    }
    if (!known) return {0, log_sum};
    c[y] -= 1 / lambda_[own];
    for (std::size_t g = 0; g < lambda_.size(); ++g) {
      slopes_[g] =
          value_[g] > none ? std::exp(lambda_[g] * value_[g] - log_sum) * (value_[g] - mean_[g] / lambda_[g]) : 0.0;
    }
    const double l = lambda_[own];
    slopes_[own] -= (mean_[own] - u[y]) / (l * l) + value_[own] - mean_[own] / l;
    return {log_sum - (u[y] / l + (l - 1) * value_[own]), log_sum};
  }

  // dloss / dlambda of the last set.
  std::span<const double> slopes() const { return slopes_; }

 private:
  std::size_t nest(std::size_t k) const { return static_cast<std::size_t>(nests[k]); }

  std::span<const double> lambda_;
  std::vector<double> value_, top_, share_, mean_, slopes_;
};

// The integrand is log-concave in e; a trapezoidal rule of spacing sigma / 4, sigma being its width at the mode, ends
// where a term is e^-36 of the largest. That of logistic noise is level between 0 and the gap of utilities; where this
// is beyond 1,600, nodes lie farther apart, and the loss errs by 1e-3 at most.
template <class Noise>
class NoisyChoice {
 public:
  std::span<const double> log_weights;  // of the members of u: log F of each is taken that many times

  explicit NoisyChoice(Isa isa) : maximum_(isa) {}

  ChoiceLoss set(std::span<const double> u, std::size_t y, std::span<double> c) {
    if (y >= u.size()) throw std::invalid_argument("the noise has no probabilities in closed form");
    gaps_.resize(u.size());
    powers_.resize(u.size());
    for (std::size_t k = 0; k < u.size(); ++k) {
      gaps_[k] = k == y ? -std::numeric_limits<double>::infinity() : u[k] - u[y];
      powers_[k] = log_weights.empty() ? 1.0 : std::exp(log_weights[k]);
    }
    maximum_.set(gaps_, powers_);
    const double log_p = integrate();
    double total = 0;
    for (std::size_t k = 0; k < u.size(); ++k) {
      double slope = 0;
      for (std::size_t n = 0; k != y && n < nodes_.size(); ++n) {
        slope += weights_[n] * Noise::slope(nodes_[n] - gaps_[k]);
      }
      c[k] = powers_[k] * slope;
      total += c[k];
    }
    c[y] = -total;
    return {-log_p, std::numeric_limits<double>::quiet_NaN()};
  }

  // Second derivatives of the last loss by s coefficients, whose features less those of y are given, s x n. With shares
  // w of nodes e, and gaps g: -sum_k sum_e w (log F)''(e - g_k) d_k d_k' - Cov_w(sum_k (log F)'(e - g_k) d_k).
  void curvature(std::span<const double> features, std::size_t s, double* out) {
    const std::size_t n = gaps_.size(), m = nodes_.size();
    bends_.assign(n, 0.0);
    moves_.assign(s * m, 0.0);
    slopes_.resize(m);
    for (std::size_t k = 0; k < n; ++k) {
      if (!(gaps_[k] > -std::numeric_limits<double>::infinity())) continue;
      for (std::size_t e = 0; e < m; ++e) {
        const double x = nodes_[e] - gaps_[k], slope = Noise::slope(x);
        slopes_[e] = powers_[k] * slope;
        bends_[k] -= slope > 0 ? weights_[e] * slopes_[e] * Noise::bend(x, slope) : 0.0;
      }
      for (std::size_t j = 0; j < s; ++j) {
        for (std::size_t e = 0; e < m; ++e) moves_[j * m + e] += slopes_[e] * features[j * n + k];
      }
    }
    for (std::size_t j = 0; j < s; ++j) {
      double mean = 0;
      for (std::size_t e = 0; e < m; ++e) mean += weights_[e] * moves_[j * m + e];
      for (std::size_t e = 0; e < m; ++e) moves_[j * m + e] -= mean;
    }
    for (std::size_t a = 0; a < s; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        double sum = 0;
        for (std::size_t k = 0; k < n; ++k) sum += bends_[k] * features[a * n + k] * features[b * n + k];
        for (std::size_t e = 0; e < m; ++e) sum -= weights_[e] * moves_[a * m + e] * moves_[b * m + e];
        out[a * s + b] = out[b * s + a] = sum;
      }
    }
  }

 private:
  static constexpr double finer = 4, negligible = 36;
  static constexpr std::size_t most_nodes = 4096;

  struct At {
    double value, slope, curvature;
  };

  At at(double e) const {
    const auto rest = maximum_.derivatives(e);
    const double slope = Noise::slope(e), bend = Noise::bend(e, slope);
    return {Noise::log_density(e) + rest.value, slope + bend + rest.slope,
            slope * bend + Noise::bend_of_bend(e, slope) + rest.curvature};
  }

  // Nodes at a spacing with their logarithms, of which the largest is `top`; false where they are too many.
  bool lay_nodes(double mode, double spacing, double& top) {
    nodes_.clear();
    weights_.clear();
    top = -std::numeric_limits<double>::infinity();
    for (const double direction : {1.0, -1.0}) {
      for (double step = direction > 0 ? 0 : 1;; ++step) {
        const double e = mode + direction * step * spacing;
        const double value = Noise::log_density(e) + maximum_.log_cdf(e);
        top = std::max(top, value);
        if (!(value > top - negligible)) break;
        if (nodes_.size() == most_nodes) return false;
        nodes_.push_back(e);
        weights_.push_back(value);
      }
    }
    return true;
  }

  // log of the integral; leaves the nodes and their shares of it.
  double integrate() {
    // The mode lies where the slope changes its sign: far enough out on either side, density and product win.
    double low = -1, high = 1;
    while (at(low).slope < 0) low *= 2;
    while (at(high).slope > 0) high *= 2;
    double mode = 0.5 * (low + high), width = 1;
    for (bool is_near = false; !is_near;) {
      const At here = at(mode);
      (here.slope > 0 ? low : high) = mode;
      width = 1 / std::sqrt(std::max(-here.curvature, 1e-12));
      double next = mode + here.slope * width * width;
      if (!(next > low && next < high)) next = 0.5 * (low + high);
      is_near = std::fabs(next - mode) < 0.05 * width || !(high - low > 1e-9 * (1 + std::fabs(mode)));
      mode = next;
    }
    // Nodes nearer to each other than rounding of the mode would be one.
    double spacing = std::max(std::min(width, Noise::widest) / finer, 1e-12 * std::fabs(mode)), top = 0;
    while (!lay_nodes(mode, spacing, top)) spacing *= finer;
    double sum = 0;
    for (double& weight : weights_) {
      weight = std::exp(weight - top);
      sum += weight;
    }
    for (double& weight : weights_) weight /= sum;
    return top + std::log(sum * spacing);
  }

  Maximum<Noise> maximum_;
  std::vector<double> gaps_, powers_, nodes_, weights_, bends_, moves_, slopes_;
};

// Values e of the noise of the chosen alternative at which rows carry products over alternatives. The rule of
// trapezoids errs by some 1e-3 of P(y) at 10^5 alternatives of equal utility (3e-4 at 10^4), with a sign that differs
// from row to row. Of the noise 6e-7 lies below the nodes, which only a choice that is all but certain sees, and 1e-10
// above them.
struct NoiseNodes {
  static constexpr std::size_t size = 48;
  double low, spacing;

  double operator[](std::size_t n) const { return low + static_cast<double>(n) * spacing; }
};

template <class Noise>
inline constexpr NoiseNodes noise_nodes{};
template <>
inline constexpr NoiseNodes noise_nodes<NormalNoise>{-5, 0.25};
template <>
inline constexpr NoiseNodes noise_nodes<LogisticNoise>{-14.4, 0.8};

// Augment and reduce (Ruiz et al. 2018): given the noise e of the chosen alternative, log P(y, e) = log f(e) + S(e)
// with S(e) = sum_{k != y} log F(e + u_y - u_k), which drawn alternatives estimate. With weights q of nodes that a row
// carries, the bound of the loss is -sum_n q_n S(e_n) but for what does not depend on utilities.
template <class Noise>
struct AugmentedChoice {
  std::span<const double> log_weights, node_weights;  // of the members of u; of the nodes, or empty
  std::span<double> log_products;                     // S at the nodes

  ChoiceLoss set(std::span<const double> u, std::size_t y, std::span<double> c) const {
    constexpr std::size_t m = NoiseNodes::size;
    constexpr NoiseNodes nodes = noise_nodes<Noise>;
    std::array<double, m> sums{}, x{}, slopes{};
    double total = 0;
    for (std::size_t k = 0; k < u.size(); ++k) {
      c[k] = 0;
      const double gap = u[k] - u[y];
      if (k == y || !(gap > -std::numeric_limits<double>::infinity())) continue;
      const double alpha = log_weights.empty() ? 1.0 : std::exp(log_weights[k]);
      for (std::size_t n = 0; n < m; ++n) x[n] = nodes[n] - gap;
      for (std::size_t n = 0; n < m; ++n) sums[n] += alpha * Noise::log_cdf(x[n]);
      if (node_weights.empty()) continue;
      for (std::size_t n = 0; n < m; ++n) slopes[n] = node_weights[n] * Noise::slope(x[n]);
      double slope = 0;
      for (const double part : slopes) slope += part;
      c[k] = alpha * slope;
      total += c[k];
    }
    c[y] = -total;
    for (std::size_t n = 0; n < m; ++n) log_products[n] = sums[n];
    return {0, std::numeric_limits<double>::quiet_NaN()};
  }
};

}  // namespace manyclass
