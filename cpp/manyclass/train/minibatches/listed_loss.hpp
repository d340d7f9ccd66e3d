// The loss over some listed classes of a point, and its gradient as a list.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>
#include <vector>

#include "manyclass/math/sums.hpp"
#include "manyclass/objective/label_loss.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/train/minibatches/class_source.hpp"

namespace manyclass {

// The loss that a step of size eta takes: an implicit margin step is the gradient of a smoother one. The proximal step
// of a loss times a weight is one of so many times the size.
inline LabelLoss loss_of_step(const SourceSettings& settings, double eta, const LabelPoint& point) {
  const auto* margin = std::get_if<SmoothedMargin>(&settings.loss);
  if (!settings.implicit || margin == nullptr) return settings.loss;
  return implicit_margin(margin->smoothing, eta * point.weight, point.phi_sq);
}

// The step of the double sum: the answer to scores z of classes with weights alpha, of which those with alpha 0 do not
// count, and to the labels' scores.
inline double step_gradient(const SourceSettings& settings, const LabelPoint& point, double eta,
                            std::span<const float> z, std::span<const float> alpha, std::span<const float> labels,
                            LabelGradient& g) {
  double mean = 0;
  for (const float score : labels) mean += static_cast<double>(score);
  mean /= static_cast<double>(labels.size());
  // As in loss_of_step, a weight lengthens a proximal step.
  const SampledPoint seen{z, alpha, mean, point.phi_sq, eta * point.weight, eta * settings.local_step, point.visits};
  return settings.step->solve(settings.isa, seen, labels, *point.local, g);
}

// Scores of a point's labels and of some wrong classes, with room for their gradient.
struct ListedScores {
  std::vector<Index> wrong;
  std::vector<float> negatives, positives;
  std::vector<float> negative_g, positive_g;
  LossMemory memory;
};

inline void score_labels(const LabelWeights& classes, const LabelPoint& point, Isa isa, ListedScores& listed) {
  listed.positives.resize(point.labels.size());
  classes.scores(point.labels, point, isa, listed.positives);
}

inline void score_wrong(const LabelWeights& classes, const LabelPoint& point, Isa isa, ListedScores& listed) {
  listed.negatives.resize(listed.wrong.size());
  classes.scores(listed.wrong, point, isa, listed.negatives);
}

// Leaves the gradient with respect to the labels' and the listed classes' scores in `out`; `alpha` are the weights of
// the latter for a step of the double sum.
inline void listed_gradient(const SourceSettings& settings, const LabelPoint& point, double eta, ListedScores& listed,
                            std::span<const float> alpha, ClassGradient& out) {
  out.clear();
  run_with(settings.isa,
           [&] { out.largest_score = std::max(largest_of(listed.positives), largest_of(listed.negatives)); });
  if (!(out.largest_score <= static_cast<float>(runaway))) return;
  listed.negative_g.resize(listed.negatives.size());
  listed.positive_g.resize(listed.positives.size());
  LabelGradient gradient{listed.positive_g, listed.negative_g};
  if (settings.step != nullptr) {
    out.loss = step_gradient(settings, point, eta, listed.negatives, alpha, listed.positives, gradient);
  } else {
    std::visit(
        [&](const auto& loss) {
          run_with(settings.isa,
                   [&] { out.loss = loss(LabelScores{listed.positives, listed.negatives}, gradient, listed.memory); });
        },
        loss_of_step(settings, eta, point));
  }
  const auto add = [&](std::span<const Index> ids, std::span<const float> g) {
    for (std::size_t c = 0; c < ids.size(); ++c) {
      if (g[c] == 0) continue;
      out.ids.push_back(ids[c]);
      out.g.push_back(g[c]);
    }
  };
  add(point.labels, listed.positive_g);
  add(listed.wrong, listed.negative_g);
}

}  // namespace manyclass
