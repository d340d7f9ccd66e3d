// The cross-entropy of several labels, sum_{k in P} [log sum_j e^{z_j} - z_k], with the gradient |P| softmax - 1_P
// (Yen et al., ICML 2018, eq. 2).
//
// Of scores z_k = -d_k, d_k the distance to the point of class k, it is the loss of neighbourhood component analysis
// (eq. 6 there).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "manyclass/math/elementary.hpp"
#include "manyclass/math/sums.hpp"
#include "manyclass/objective/point.hpp"

namespace manyclass {

struct CrossEntropy {
  static constexpr Facts facts{
      .name = "cross_entropy",
      .sentence = "The softmax log-loss, summed over the labels of a point.",
      .source = "Yen et al., ICML 2018, eq. 2",
  };

  double operator()(const LabelScores& z, LabelGradient& g, LossMemory&) const {
    const auto n_labels = static_cast<double>(z.positives.size());
    const float rest_or_none = z.rest > 0 ? z.rest_score : z.positives[0];
    const float top = max_of(z.negatives, std::max(max_of(z.positives, z.positives[0]), rest_or_none));
    const auto shift = static_cast<double>(top);

    // The sum of all terms e^(z - top): of the labels in double, for they are few and what matters is how far their
    // probabilities are from 1 / |P|.
    double labels = 0, below = 0;
    for (const float score : z.positives) {
      const double depth = shift - static_cast<double>(score);
      labels += std::exp(-depth);
      below += depth;
    }
    for (std::size_t j = 0; j < z.negatives.size(); ++j) g.negatives[j] = vec::normal_exp(z.negatives[j] - top);
    const double each_of_rest = z.rest > 0 ? std::exp(static_cast<double>(z.rest_score) - shift) : 0.0;
    const double wrong = sum_of(g.negatives) + z.rest * each_of_rest;
    const double sum = labels + wrong;

    // |P| p_k - 1 with nothing lost where one label has all the probability: the terms of the labels alone come first.
    for (std::size_t k = 0; k < z.positives.size(); ++k) {
      const double term = std::exp(static_cast<double>(z.positives[k]) - shift);
      g.positives[k] = static_cast<float>(((n_labels * term - labels) - wrong) / sum);
    }
    const auto factor = static_cast<float>(n_labels / sum);
    for (std::size_t j = 0; j < z.negatives.size(); ++j) g.negatives[j] *= factor;
    g.rest = n_labels / sum * each_of_rest;
    return n_labels * std::log1p((labels - 1) + wrong) + below;
  }

  // Never: each class has a part, however small.
  bool top_is_enough(const LabelGradient&) const { return false; }
};

static_assert(LossOfLabels<CrossEntropy>, "see objective/point.hpp");

}  // namespace manyclass
