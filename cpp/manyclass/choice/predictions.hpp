// What a choice model answers of rows: utilities and probabilities of alternatives, and the best ones.
#pragma once

#include <span>

#include "manyclass/choice/problem.hpp"

namespace manyclass {

// Rows of K: utilities without noise, -infinity where an alternative is not available; and probabilities.
void utilities(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);
void probabilities(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The m most probable alternatives of each row, best first and of equals the first one, and their probabilities: n x m.
void most_probable(const ChoiceProblem& problem, std::span<const double> theta, std::size_t m, std::span<Index> ids,
                   std::span<double> shares);

// The largest squared spread of utilities within a row, all alternatives counted as available: the sum of squares over
// `n` directions (n x size) of how far the utilities of two alternatives are apart when the coefficients are that
// direction. By Cauchy and Schwarz no unit combination of the directions moves two alternatives farther apart.
double squared_spread(const ChoiceProblem& problem, std::span<const double> directions, std::size_t n);

}  // namespace manyclass
