// The max-margin loss of several labels, smoothed: of one that a wrong class comes within 1 of (Yen et al., ICML 2018,
// eq. 3, 10 and 11, with the signs that make it a loss).
//
//   L(z)    = [max_{j in N, k in P} 1 + z_j - z_k]_+       = max over alpha in C of <z + 1_N, alpha>
//   L_mu(z) = max over alpha in C of <z + 1_N, alpha> - mu/2 |alpha|^2,   grad L_mu = proj_C((z + 1_N) / mu)
//
// C is the bi-simplex (math/simplex.hpp). |alpha|^2 <= 2 there, so 0 <= L - L_mu <= mu; the gradient is
// 1/mu-Lipschitz, adds up to 0, and is 0 but for the classes nearest to the margin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "manyclass/math/simplex.hpp"
#include "manyclass/objective/point.hpp"

namespace manyclass {

struct SmoothedMargin {
  static constexpr Facts facts{
      .name = "margin",
      .sentence = "The largest violation of the margin between a label and a wrong class, smoothed.",
      .source = "Yen et al., ICML 2018, eq. 3 and 10-11",
      .parameters = {{"smoothing", 1, 0, unbounded, false, "mu; the smoothed loss is at most mu below the margin's."}},
  };
  double smoothing;  // mu >= 0; 0 is L itself

  double operator()(const LabelScores& z, LabelGradient& g, LossMemory& memory) const {
    std::fill(g.positives.begin(), g.positives.end(), 0.0F);
    std::fill(g.negatives.begin(), g.negatives.end(), 0.0F);
    g.rest = 0;
    const double mu = std::max(smoothing, smallest);
    const BiSimplex found =
        project_bisimplex(z.positives, z.negatives, z.rest, z.rest_score, 1, mu, memory.floats, memory.more_floats);
    if (!(found.gap > 0)) return 0;
    if (smoothing < smallest) return sharp(z, found, g);
    const double scale = 1 / mu;
    for (std::size_t k = 0; k < z.positives.size(); ++k) {
      g.positives[k] = static_cast<float>(found.positive(static_cast<double>(z.positives[k])) * scale);
    }
    for (std::size_t j = 0; j < z.negatives.size(); ++j) {
      g.negatives[j] = static_cast<float>(found.negative(static_cast<double>(z.negatives[j])) * scale);
    }
    if (z.rest > 0) g.rest = found.negative(static_cast<double>(z.rest_score)) * scale;
    return found.value * scale;
  }

  // Whether a gradient of the highest wrong classes only, with no rest, is that of all wrong classes: a lower score
  // than one that gets nothing gets nothing, and what it would take away is nothing.
  bool top_is_enough(const LabelGradient& g) const {
    if (smoothing < smallest) return !g.negatives.empty();
    return std::find(g.negatives.begin(), g.negatives.end(), 0.0F) != g.negatives.end();
  }

 private:
  static constexpr double smallest = std::numeric_limits<double>::min();  // 1 / mu must be finite

  // The subgradient of L with one class of each kind: +1 at the best wrong class, -1 at the worst label, the first of
  // equals. The classes of a rest that is above all listed ones share the 1.
  static double sharp(const LabelScores& z, const BiSimplex& found, LabelGradient& g) {
    const auto worst = std::min_element(z.positives.begin(), z.positives.end());
    g.positives[static_cast<std::size_t>(worst - z.positives.begin())] = -1;
    const auto best = std::find(z.negatives.begin(), z.negatives.end(), static_cast<float>(found.best_n));
    if (best != z.negatives.end()) {
      g.negatives[static_cast<std::size_t>(best - z.negatives.begin())] = 1;
    } else {
      g.rest = 1 / z.rest;
    }
    return found.gap;
  }
};

static_assert(LossOfLabels<SmoothedMargin>, "see objective/point.hpp");

// The implicit (proximal) step of the smoothed margin of z = W x is a gradient at the old scores, of a smoother loss:
//
//   min_W L_mu(W x) + |W - W~|^2 / (2 eta)  =  max over alpha in C of  <1_N, alpha> - mu/2 |alpha|^2
//                                                 + min_W <W x, alpha> + |W - W~|^2 / (2 eta)
//
// (min and max change places: C is compact, and the sum convex in W and concave in alpha). The inner minimum is at
// W = W~ - eta alpha x', where it is <W~ x, alpha> - eta/2 |alpha|^2 |x|^2. What is left is L_mu' at the old scores,
// mu' = mu + eta |x|^2: its gradient alpha makes the step, and its value is the minimum.
//
// With mu = 0 this is a passive-aggressive step for many classes: it moves W no farther than the margin asks for.
inline SmoothedMargin implicit_margin(double smoothing, double eta, double x_sq) { return {smoothing + eta * x_sq}; }

}  // namespace manyclass
