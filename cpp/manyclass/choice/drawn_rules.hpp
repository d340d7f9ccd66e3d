// Rules of rows whose alternatives were drawn, each of which stands for alpha alternatives: sums over all alternatives
// are estimated without bias. A row carries what makes its loss linear in such a sum.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "manyclass/choice/rules.hpp"

namespace manyclass {

// The double sum of a row of Gumbel noise, log alpha being added to utilities: with the log-normaliser
// w that the row carries, w + e^-w (1 + sum_{k != y} alpha_k e^{u_k - u_y}) - 1, which has its least value log A at
// w = log A. The inclusive value is the log of the estimate of A.
struct DrawnChoice {
  static constexpr bool has_probabilities = false;
  double log_normalizer = 0;

  ChoiceLoss set(std::span<const double> u, std::size_t y, std::span<double> c) const {
    double others = 0;
    double top = 0;
    for (std::size_t k = 0; k < u.size(); ++k) top = k != y && u[k] - u[y] > top ? u[k] - u[y] : top;
    for (std::size_t k = 0; k < u.size(); ++k) {
      if (k == y) continue;
      c[k] = vec::exp(u[k] - u[y] - top);
      others += c[k];
    }
    const double scale = std::exp(top - log_normalizer);
    for (double& p : c) p *= scale;
    c[y] = -others * scale;
    return {log_normalizer + std::exp(-log_normalizer) + others * scale - 1, top + std::log(std::exp(-top) + others)};
  }
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
  static constexpr bool has_probabilities = false;
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
