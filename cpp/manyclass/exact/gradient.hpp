// Loss and gradient of the whole data set, exact: what a batch optimiser asks for.
#pragma once

#include <span>
#include <string>

#include "manyclass/core/simd.hpp"
#include "manyclass/exact/double_scores.hpp"

namespace manyclass {

// Returns the mean loss over the points, one of FullBatchLosses by name, and writes its gradient with respect to W,
// laid out as the model's is, and to the intercepts. Labels in [0, K). `weights` multiply the points' losses: N of them
// with mean 1, or empty.
//
// Takes one pass for the losses and one for the gradient. Where `room` has K numbers for each point or for some of
// them, what the first pass finds is left there for the second, some points at a time: 2 nnz(X) K multiplications.
// Where it is empty each scores all classes: 3 nnz(X) K. Throws std::invalid_argument for an unknown loss.
template <class Data, class Layout>
double loss_and_gradient(const std::string& loss, const Data& x, std::span<const Index> labels,
                         std::span<const double> weights, const DoubleModel<Layout>& model, int n_threads, Isa isa,
                         std::span<double> room, std::span<double> gradient, std::span<double> intercept_gradient);

}  // namespace manyclass
