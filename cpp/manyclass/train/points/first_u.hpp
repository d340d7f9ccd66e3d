// What a point carries at its first visit in a training that goes on: NaN in u stands for a point of which nothing is
// known.
//
// A u that is off by d multiplies the point's gradient by e^-d, and a point that is visited once has no later visit
// that would mend it. So u begins at its value, log sum_k e^{z_k - z_y}, where the classes are few enough to score them
// all: the gradient then has no bias. Where they are many it begins at the logarithm of the sum that the visit's own
// draw estimates: the gradient then is a ratio of two estimates by one draw, whose bias is O(1/m) of m classes.
#pragma once

#include <limits>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/objective/sampled_sum.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

// Visits that a u is taken to rest on where it is exact: no moving average then goes to the sum of one draw.
inline constexpr int visits_of_exact_u = std::numeric_limits<int>::max() / 2;

// log sum_k e^{z_k} of point i over all classes; `z` has room for them.
template <class Rows>
double log_normalizer_of(const Problem<Rows>& problem, Index i, Isa isa, std::span<float> z) {
  LogSumExp sum;
  run_with(isa, [&] {
    problem.model.scores(problem.x.row(i), ClassRange{0, problem.n_classes}, z);
    sum.add(std::span<const float>(z));
  });
  if (problem.elsewhere) sum.merge({problem.elsewhere->log_sums[static_cast<std::size_t>(i)], 1});
  return sum.value();
}

// The same less the label's score, as a draw estimates it.
inline double drawn_log_sum(const SampledPoint& point, std::span<float> terms) {
  const double own = (point.labelled ? sampled_sum(point, terms) : sum_without_label(point, terms)).log_a;
  return log_add(own, point.others - point.label_score);
}

}  // namespace manyclass
