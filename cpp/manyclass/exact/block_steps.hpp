// Exact steps of some points on the weights of a block of classes, and estimates of the block's log-sums by some of its
// classes: what training by rows and classes asks for (Raman et al., KDD 2019).
//
// A point i keeps for each block b the log-sum of its scores l_ib, and its log-normaliser is v_i = log sum_b e^{l_ib}.
#pragma once

#include <span>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/simd.hpp"

namespace manyclass {

// Points, each with the place of its label in the block; a number that is no place: the label is in another block.
struct BlockOfClasses {
  std::span<float> matrix;  // (D, K or more) for sparse points, (K, D) for dense ones
  std::span<float> intercept;
  std::span<const Index> labels;
  Isa isa = best_isa();
};

struct BlockSteps {
  BlockOfClasses of;
  std::span<const double> sample_weight;  // one for each point, or empty
  std::span<double> log_sums;             // l, (N, n_blocks), of which steps write column `number`
  std::size_t n_blocks = 0, number = 0;
  std::span<const Index> order;  // the points that make steps, `together` of them each
  std::size_t together = 1;
  double eta = 0, alpha = 0;
  bool fit_intercept = false;
};

// Of points whose labels are in the block, the sum of losses as each was met; and whether all numbers stayed finite.
struct StepsTaken {
  double loss = 0;
  bool finite = true;
};

// A step follows the sum of its points' gradients. The step size of class k is eta / (1 + eta B_k), where B_k is the
// sum of p_ik (|x_i|^2 + 1) over the points, and for those of class k of a quarter of |x_i|^2 + 1 besides: the largest
// value of p (1 - p), which a point meets on the way of its label's p to 1. It bounds the curvature of the loss in the
// weights of the class, so that no step goes past the optimum of a parabola. Throws std::invalid_argument where sizes
// do not fit or points are out of range.
template <class Data>
StepsTaken exact_block_steps(const Data& x, const BlockSteps& steps);

// Some classes of a block that stand for all of it. Scores are g_k w_k.x + b_k.
struct ClassSample {
  std::span<const float> scale;         // g, one for each class of the block
  std::span<const Index> classes;       // distinct
  std::span<const double> log_weights;  // how many classes each of them stands for, in logarithms
};

// Writes log(sum_c weight_c e^{z_c}) of each point, its label counting once if it is in the block, drawn or not.
template <class Data>
void estimated_log_sums(const Data& x, const BlockOfClasses& of, const ClassSample& sample, std::span<double> out);

}  // namespace manyclass
