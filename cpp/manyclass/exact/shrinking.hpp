// How much smaller the weights of a linear model should be, as points tell that it was not trained on.
#pragma once

#include <span>

#include "manyclass/core/types.hpp"

namespace manyclass {

// The factor in [least, 1] of the scores, but for the intercepts, of least mean log-loss, if it betters that of the scores
// as they are by more than twice the standard error of the points' differences; else 1. Scores are rows of
// intercept.size() each.
double shrinking_factor(std::span<const float> scores, std::span<const float> intercept, std::span<const Index> labels,
                        double least);

}  // namespace manyclass
