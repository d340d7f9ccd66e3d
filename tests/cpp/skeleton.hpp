// The skeleton of an objective, to copy: the squared hinge, 1/2 sum_{k != y} (1 + d_k)_+^2 with d_k = z_k - z_y.
//
// A wrong class costs where its score comes within 1 of the label's or above it. An objective is a pure function of the
// scores of one point: it knows no data, no weights, no threads, and draws nothing.
#pragma once

#include <algorithm>

#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

struct SquaredHinge {
  // What the package knows of it: its name, which is SquaredHinge in manyclass.solvers, and a sentence for the page of
  // parts; `source` and `parameters` are left out, `flags` say what a step uses (registry.hpp). Biased says that its
  // optimum is not that of the softmax.
  static constexpr Facts facts{
      .name = "squared_hinge",
      .sentence = "The squared hinge, a sum over wrong classes that come within 1 of the label.",
      .biased = true,
  };

  // Writes df/dz_k to g for every class of the sample. alpha_k weighs each, so that the sum over the sample estimates
  // the sum over all wrong classes; a class with alpha_k = 0 does not count. The second argument is the value that a
  // point carries between visits (u); this objective has none, and its gradient in u is 0.
  Gradient gradient(const SampledPoint& point, double&, std::span<float> g) const {
    const double log_a = sampled_sum(point, g).log_a;  // for the report: the log-loss as this sample shows it
    const auto z_y = static_cast<float>(point.label_score);
    for (std::size_t k = 0; k < point.size(); ++k) {
      g[k] = point.alpha[k] * std::max(0.0F, 1 + point.scores[k] - z_y);
    }
    const double wrong = sum_of(g);   // every d_k falls by as much as z_y rises, so this is df/d(-z_y)
    return {wrong, 0, log_a, wrong};  // label, u, loss, total
  }
};

}  // namespace manyclass
