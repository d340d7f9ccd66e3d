// The decoupled softmax of several labels, sum_{l in P} [log(e^{z_l} + sum_{k not in P} e^{z_k}) - z_l]: each label has
// a softmax with the wrong classes, and the other labels of the point do not compete with it (DEXML, arXiv:2310.10636).
//
// With n = log sum_{k not in P} e^{z_k} and s_l = 1 / (1 + e^{z_l - n}), the share of the wrong classes beside label l,
// the loss is sum_l log(1 + e^{n - z_l}); its gradient is -s_l at a label, and e^{z_k - n} sum_l s_l at a wrong class.
// One label: the softmax.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "manyclass/math/elementary.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/math/sums.hpp"
#include "manyclass/objective/point.hpp"

namespace manyclass {

struct Decoupled {
  static constexpr Facts facts{
      .name = "decoupled",
      .sentence = "The softmax log-loss of each label beside the wrong classes only, summed over the labels.",
      .source = "Gupta et al., ICLR 2024 (DEXML)",
  };

  double operator()(const LabelScores& z, LabelGradient& g, LossMemory&) const {
    g.rest = 0;
    if (z.negatives.empty() && !(z.rest > 0)) {  // every class is a label
      std::fill(g.positives.begin(), g.positives.end(), 0.0F);
      return 0;
    }
    const float start = z.rest > 0 ? z.rest_score : z.negatives[0];
    const float top = max_of(z.negatives, start);
    for (std::size_t j = 0; j < z.negatives.size(); ++j) g.negatives[j] = vec::normal_exp(z.negatives[j] - top);
    const double each_of_rest = z.rest > 0 ? std::exp(static_cast<double>(z.rest_score) - static_cast<double>(top)) : 0;
    const double wrong = sum_of(g.negatives) + z.rest * each_of_rest;
    const double n = static_cast<double>(top) + std::log(wrong);

    double loss = 0, shares = 0;
    for (std::size_t l = 0; l < z.positives.size(); ++l) {
      const double behind = n - static_cast<double>(z.positives[l]);
      const double share = expit(behind);
      loss += softplus(behind);
      shares += share;
      g.positives[l] = static_cast<float>(-share);
    }
    const auto factor = static_cast<float>(shares / wrong);
    for (std::size_t j = 0; j < z.negatives.size(); ++j) g.negatives[j] *= factor;
    g.rest = shares / wrong * each_of_rest;
    return loss;
  }

  // Never: each class has a part, however small.
  bool top_is_enough(const LabelGradient&) const { return false; }
};

static_assert(LossOfLabels<Decoupled>, "see objective/point.hpp");

}  // namespace manyclass
