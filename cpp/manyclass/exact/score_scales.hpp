// Factors of the scores of one or two terms whose sum has the least loss on rows with labels, and what rows of a stream
// tell of them.
//
// A loss that is convex in scores is convex in the factors t of z_k = sum_p t_p a_pk, and has the slopes sum_k a_pk
// dL/dz_k: a search needs no more than a pass over the scores a at each step (math/box_minimum.hpp).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/core/lists.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/math/box_minimum.hpp"
#include "manyclass/objective/label_loss.hpp"

namespace manyclass {

struct ScaledRows {
  std::vector<std::span<const float>> terms{};  // rows of n_classes scores each
  std::size_t n_classes = 0;
  Excluded labels{};                  // of each row, at least one
  std::span<const double> weights{};  // of the rows; empty: all are 1
  std::span<const double> sum_of{};   // given: the one factor is that of the sum of the terms times these
  int n_threads = 1;
  Isa isa{};

  std::size_t size() const { return labels.indptr.size() - 1; }
  std::size_t n_scales() const { return sum_of.empty() ? terms.size() : 1; }
  double weight(std::size_t i) const { return weights.empty() ? 1 : weights[i]; }
};

// Throws std::invalid_argument where the sizes do not fit, or a row has no label.
void check(const ScaledRows& rows);

// The weighted mean over the rows of a loss, in nats; writes its derivatives by the factors. It does not depend on the
// number of threads.
double scaled_loss(const ScaledRows& rows, const LabelLoss& loss, std::span<const double> scales,
                   std::span<double> slopes);

// The factors in the box whose loss is the least, to a millionth of it: what is left is less than the rounding of
// scores.
BoxMinimum best_scales(const ScaledRows& rows, const LabelLoss& loss, std::span<const double> start, const Box& box);

// Normal distributions of factors, by Laplace's method. Precisions of 0 say that no row has told anything. What is
// known then is taken to be worth one row whose scores are uniform: the precision of a factor is the variance of the
// term's scores over the classes.
struct KnownScales {
  std::vector<double> means, precisions;
};

// The most probable factors of at least `least` after rows that the model was not trained on, and the precisions there.
KnownScales learnt_scales(const ScaledRows& rows, const LabelLoss& loss, const KnownScales& known, double least);

}  // namespace manyclass
