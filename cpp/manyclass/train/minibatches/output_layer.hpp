// The last layer of any network by sampled or by all classes: its loss, with gradients in its weights and its input.
//
// For points x_i with labels y_i and numbers u_i, and classes S_i that a selection draws with weights alpha,
//
//   value = 1/n sum_i (u_i + e^-u_i A_i - 1),   A_i = 1 + sum_{k in S_i} alpha_ik e^{z_ik - z_{i,y_i}},
//   z_ik  = w_k.x_i + b_k.
//
// In the mean over draws A_i is the whole sum over classes. So at numbers u_i that do not depend on the draw the value
// and its gradients are those of the double sum without bias, whose minimum over u is the mean log-loss (Fagan &
// Iyengar 2018, eq. 5 and, for W and x both learned, section 5). A step costs O(n m D) for m classes a point.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/select/any_select.hpp"

namespace manyclass {

struct OutputLayer {
  std::span<const float> weights;    // K x D
  std::span<const float> intercept;  // K
  Index n_classes;
  Index n_features;
};

// n points, and what names their draws: point i is item items[i] of (seed, epoch).
struct LayerBatch {
  DenseView x;
  std::span<const Index> labels;
  std::span<const std::int64_t> items;  // >= 0
  // Carried between visits, or empty: u_i = log A_i of this very draw, which biases the gradient (complementary sum
  // sampling).
  std::span<const double> u;
  double delta;  // u_i is raised first where it is more than this below a bound on its optimum (U-max); >= 0
  RngKey key;
};

// Of the value above, u held fixed at `u`.
struct LayerGradient {
  double value = 0;
  std::vector<Index> rows;       // classes that are a label or drawn, ascending
  std::vector<float> weights;    // rows x D
  std::vector<float> intercept;  // rows
  std::vector<float> x;          // n x D
  std::vector<double> u;         // n, at which the gradient is taken
  std::vector<double> u_slopes;  // n
};

// The result depends on no number of threads. Throws std::invalid_argument where the parts of the batch do not fit.
LayerGradient sampled_gradient(const LayerBatch& batch, const AnySelect& select, const OutputLayer& layer,
                               int n_threads, Isa isa);

// Where the gradients of the mean log-loss over all classes go; they are added to what is there.
struct ExactLayerGradient {
  std::span<float> weights;    // K x D
  std::span<float> intercept;  // K, or empty: there are none
  std::span<float> x;          // n x D
  std::span<double> u;         // n, overwritten: the log-loss of each point
};

// Takes 4 n K D multiplications, the scores being made twice. The result depends on no number of threads. Throws
// std::invalid_argument where sizes do not fit or a label is out of range.
void exact_gradient(const DenseView& x, std::span<const Index> labels, const OutputLayer& layer, int n_threads, Isa isa,
                    const ExactLayerGradient& out);

}  // namespace manyclass
