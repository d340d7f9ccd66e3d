// The choice probabilities of a model under any noise, from all of its scores.
#pragma once

#include <span>

#include "manyclass/evaluate/weights.hpp"
#include "manyclass/math/noise.hpp"

namespace manyclass {

// Row i of `out`: log p of row i of `classes`, both of `width` columns; no classes: of all. Scores are taken less the
// largest of a point, and what is 2^20 below it as that: beside a huge score the noise, over which probabilities are
// integrals, would be rounded away. Never an N x K array but where it is the answer.
void utility_log_probabilities(const NoiseKind& noise, const Weights& weights, const AnyPoints& points,
                               std::span<const Index> classes, std::size_t width, const Asked& asked,
                               std::span<double> out);

}  // namespace manyclass
