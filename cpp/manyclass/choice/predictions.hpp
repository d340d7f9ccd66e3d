// What a choice model answers of rows: utilities and probabilities of alternatives, the best ones, and how
// probabilities move with a feature.
#pragma once

#include <span>
#include <string>

#include "manyclass/choice/problem.hpp"

namespace manyclass {

// Rows of K: utilities without noise, -infinity where an alternative is not available; and probabilities.
void utilities(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);
void probabilities(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The m most probable alternatives of each row, best first and of equals the first one, and their probabilities: n x m.
void most_probable(const ChoiceProblem& problem, std::span<const double> theta, std::size_t m, std::span<Index> ids,
                   std::span<double> shares);

// A feature that moves, of one alternative or, with -1, of all.
struct MovedFeature {
  std::string of = "chooser";  // or "alternative", "pair"
  std::size_t column = 0;
  Index alternative = -1;
};

// The derivatives of all probabilities by a feature, by central differences: n x K.
void marginal_effects(const ChoiceProblem& problem, std::span<const double> theta, const MovedFeature& feature,
                      std::span<double> out);

// Sums over rows, with their weights, of derivatives times the feature's value (that of a pair not listed is 0), and of
// probabilities: K each.
void elasticity_sums(const ChoiceProblem& problem, std::span<const double> theta, const MovedFeature& feature,
                     std::span<double> effects, std::span<double> shares);

// The log of how many alternatives are available to each row.
void log_set_sizes(const ChoiceProblem& problem, std::span<double> out);

}  // namespace manyclass
