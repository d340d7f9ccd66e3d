// How far a softmax model is from the optimum of its ridge-penalised log-loss: the primal and the dual.
#pragma once

#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/exact/double_scores.hpp"

namespace manyclass {

// F = mean loss + alpha / 2 |W|^2 >= the optimum >= the dual, in nats per point.
struct PrimalDual {
  double primal, dual;
};

struct DualityQuestion {
  std::span<const double> weights;  // of the points, of mean 1; or empty
  double alpha = 0;                 // 0: the dual is 0
  double squares = 0;               // |W|^2
  bool fit_intercept = false;       // whether the intercepts are free, or those of the model
  int n_threads = 1;
  Isa isa{};
};

// Labels in [0, K).
template <class Data, class Layout>
PrimalDual duality_gap(const Data& x, std::span<const Index> labels, const DoubleModel<Layout>& model,
                       const DualityQuestion& question);

}  // namespace manyclass
