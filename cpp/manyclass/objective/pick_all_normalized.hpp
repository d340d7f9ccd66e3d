// The cross-entropy of several labels divided by their number: every point counts the same, however many it has.
//
// The sum is consistent for precision at k, the mean for recall at k, and none for both (Menon et al., NeurIPS 2019).
#pragma once

#include "manyclass/objective/cross_entropy.hpp"

namespace manyclass {

struct PickAllNormalized {
  static constexpr Facts facts{
      .name = "pick_all_normalized",
      .sentence = "The softmax log-loss, averaged over the labels of a point.",
      .source = "Menon et al., NeurIPS 2019, section 3",
  };

  double operator()(const LabelScores& z, LabelGradient& g, LossMemory& memory) const {
    const double loss = CrossEntropy{}(z, g, memory);
    const double share = 1 / static_cast<double>(z.positives.size());
    const auto factor = static_cast<float>(share);
    for (float& slope : g.positives) slope *= factor;
    for (float& slope : g.negatives) slope *= factor;
    g.rest *= share;
    return share * loss;
  }

  // Never: each class has a part, however small.
  bool top_is_enough(const LabelGradient&) const { return false; }
};

static_assert(LossOfLabels<PickAllNormalized>, "see objective/point.hpp");

}  // namespace manyclass
