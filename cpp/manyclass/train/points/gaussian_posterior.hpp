// A Gaussian posterior over the weights of augment and reduce, with diagonal covariance.
//
// The prior is N(0, 1 / (N alpha)) for every weight, q(w) = N(m, v), and what is maximised is the mean over points of
// E_q(w)[bound], less KL(q(w) || prior) / N (Ruiz et al. 2018, end of section 3.1). Under q(w) the scores of a point
// are independent normal numbers, z_k ~ N(x.m_k + b_k, sum_j x_j^2 v_kj), so that a draw of the scores stands for a
// draw of the weights. The gradient in m is that at the draw. Integrating E f(z) by parts, its slope in the variance of
// z is E f''(z) / 2, hence at the best v
//
//   1 / v_kj = N alpha + sum_i E[curvature of -bound_i in z_k] x_ij^2,
//
// a sum that each pass collects from the points and classes that it visits. For the softmax the expectation is known:
// e^{d_k} is replaced by its mean, e^{d_k + (var z_k + var z_y) / 2}.
#pragma once

#include <memory>

#include "manyclass/train/points/plan.hpp"

namespace manyclass {

// `problem` is that of the means; the others are stored as its rows are. A visit reads the variances and adds its
// curvatures times x^2 to `collected`.
template <class Rows>
struct PosteriorProblem {
  Problem<Rows> problem;
  Rows variances;
  Rows collected;
};

using AnyPosteriorProblem = std::variant<PosteriorProblem<FeatureRows<float>>, PosteriorProblem<ClassRows<float>>>;

// Of the plan, the noise, the family, the number of negatives, and of its settings the seed, the batch, the ridge and
// the instruction set have an effect. Points of a batch see the same weights and classes, min(n_negatives, K) distinct
// ones; one thread runs. Progress adds up -bound.
std::unique_ptr<Trainer> posterior_trainer(const Plan& plan, const AnyPosteriorProblem& problem);

}  // namespace manyclass
