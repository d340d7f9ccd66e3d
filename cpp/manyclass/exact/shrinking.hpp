// How much better a linear model would be with smaller weights, as points tell that it was not trained on.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ShrinkingGains {
  std::vector<double> sums, squares;  // over the points, of each factor
};

// By how much each factor of the scores, but for the intercepts, makes the points' log-losses smaller, in nats. Scores
// are rows of intercept.size() each. Throws std::invalid_argument where sizes do not fit or a label is out of range.
ShrinkingGains shrinking_gains(std::span<const float> scores, std::span<const float> intercept,
                               std::span<const Index> labels, std::span<const double> factors);

// The factor by which weights are best multiplied, by gains of `n` points: 1 unless the best one's mean is above twice
// its standard error.
double best_shrinking(std::span<const double> sums, std::span<const double> squares, std::span<const double> factors,
                      double n);

}  // namespace manyclass
