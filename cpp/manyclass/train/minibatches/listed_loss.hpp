// The loss over some listed classes of a point, and its gradient as a list.
#pragma once

#include <span>
#include <vector>

#include "manyclass/objective/label_loss.hpp"
#include "manyclass/train/minibatches/class_source.hpp"

namespace manyclass {

// The loss that a step of size eta takes: an implicit margin step is the gradient of a smoother one. The proximal step
// of a loss times a weight is that of the loss with the step size times the weight.
LabelLoss loss_of_step(const SourceSettings& settings, double eta, const LabelPoint& point);

// The step of the double sum: the answer to scores z of classes with weights alpha, of which those with alpha 0 do not
// count, and to the labels' scores.
double step_gradient(const SourceSettings& settings, const LabelPoint& point, double eta, std::span<const float> z,
                     std::span<const float> alpha, std::span<const float> labels, LabelGradient& g);

// Scores of a point's labels and of some wrong classes, with room for their gradient.
struct ListedScores {
  std::vector<Index> wrong;
  std::vector<float> negatives, positives;
  std::vector<float> negative_g, positive_g;
  LossMemory memory;
};

// Makes the scores of both.
void score_listed(const SourceSettings& settings, const LabelPoint& point, ListedScores& listed);

// Leaves the gradient with respect to the labels' and the listed classes' scores in `out`; `alpha` are the weights of
// the latter for a step of the double sum.
void listed_gradient(const SourceSettings& settings, const LabelPoint& point, double eta, ListedScores& listed,
                     std::span<const float> alpha, ClassGradient& out);

}  // namespace manyclass
