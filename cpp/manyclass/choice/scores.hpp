// The gradient of each row's loss, second derivatives of the objective, and scales by which coefficients differ.
//
// Both are taken with constants and tastes for alternatives as features z: coefficients are then those of products of
// (1, x) and (z, s), and for Gumbel noise the second derivatives are sums of (1, x)(1, x)' times the covariance of (z,
// s).
#pragma once

#include <span>

#include "manyclass/choice/problem.hpp"

namespace manyclass {

// The gradient of each row's loss, without weights: n x size of the form. Throws std::invalid_argument where
// has_scores(form) is false.
void scores(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The second derivatives of objective(), symmetric. For nests they are central differences of the gradient, off by some
// 1e-6; else it throws as scores() does.
void hessian(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The same, for a W of low rank without the second derivatives of W by its factors (Gauss and Newton's), so that it is
// never negative but where the loss is not convex in utilities.
void metric(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// About the size of the second derivatives' square roots in relation to each other: of each coefficient the standard
// deviation of what it is multiplied by; 1 where there is none.
void scales(const ChoiceProblem& problem, std::span<double> out);

// The largest squared spread of utilities within a row, all alternatives counted as available: the sum of squares over
// `n` directions (n x size) of how far the utilities of two alternatives are apart when the coefficients are that
// direction. By Cauchy and Schwarz no unit combination of the directions moves two alternatives farther apart.
double squared_spread(const ChoiceProblem& problem, std::span<const double> directions, std::size_t n);

}  // namespace manyclass
