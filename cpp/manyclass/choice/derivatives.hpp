// Losses of rows, the objective with its gradient by all coefficients, gradients of rows, and second derivatives.
#pragma once

#include <span>

#include "manyclass/choice/sums.hpp"

namespace manyclass {

// The log-loss of each row, in nats. Of drawn alternatives it is the log of the estimate of the row's sum relative to
// its choice.
void losses(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The sum over rows of weight times loss, whose gradient is written.
double objective(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> gradient);

// The logsum of each row, of Gumbel noise.
void inclusive_values(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The losses of rows of Gumbel noise whose alternatives were drawn, and their double sum with the log-normalisers that
// rows carry: its value, and its gradient that is written.
double double_sum(const ChoiceProblem& problem, std::span<const double> theta, std::span<const double> log_normalizers,
                  std::span<double> row_losses, std::span<double> gradient);

// Of rows with normal or logistic noise whose alternatives were drawn: the logs of products over alternatives at the
// nodes of their noise (n x nodes), see AugmentedChoice. With weights of these nodes, also the gradient of minus their
// sums.
void log_products(const ChoiceProblem& problem, std::span<const double> theta, std::span<const double> node_weights,
                  std::span<double> products, std::span<double> gradient);

// The two that follow are taken with constants and tastes for alternatives as features z: coefficients are then those
// of products of (1, x) and (z, s), and for Gumbel noise the second derivatives are sums of (1, x)(1, x)' times the
// covariance of (z, s). They throw std::invalid_argument where form.has_scores() is false.

// The gradient of each row's loss, without weights: n x size of the form.
void scores(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The second derivatives of objective(), symmetric; there are none of nests.
void hessian(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

}  // namespace manyclass
