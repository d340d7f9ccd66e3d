// How much better a linear model would be with smaller weights, as points tell that it was not trained on.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ShrinkingGains {
  std::vector<double> sums, squares;  // over the points, of each factor
};

// By how much each factor of the scores, but for the intercepts, makes the points' log-losses smaller, in nats. Scores are
// rows of intercept.size() each. Throws std::invalid_argument where sizes do not fit or a label is out of range.
ShrinkingGains shrinking_gains(std::span<const float> scores, std::span<const float> intercept,
                               std::span<const Index> labels, std::span<const double> factors);

}  // namespace manyclass
