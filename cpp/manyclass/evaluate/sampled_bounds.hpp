// One-vs-each from classes that were drawn (Titsias, NIPS 2016, section 3), and what to draw them by.
#pragma once

#include "manyclass/evaluate/score_rows.hpp"

namespace manyclass {

// A probability for each class of each row. Throws std::invalid_argument where one is not 0 at k, is none elsewhere, or
// where those of a row do not sum to 1: what is never drawn would bias an estimate.
void check_proposal(const ScoreRows& rows, std::span<const double> p);

// sum_m c_m log sigma(f_k - f_m) over m != k, where c_m = n_m / (r p(m)) and n_m is how often m stands among the r
// drawn classes of the row: an estimate of the one-vs-each bound without bias. Throws std::invalid_argument where k was
// drawn.
void sampled_one_vs_each(const ScoreRows& rows, std::span<const Index> drawn, std::span<const double> p,
                         const ScoreBounds& out);

// The proposal p(m), 0 at k, in proportion to sigma(f_m - f_k), mixed with a share of the uniform one, for each class
// of each row: the one by which that estimate varies the least (Titsias leaves it open).
void one_vs_each_proposal(const ScoreRows& rows, double uniform, std::span<double> p);

// Variances of the estimate by one draw from p, and the sum of those of its derivatives:
//   sum a^2 / p - (sum a)^2 and 2 sum s^2 / p - sum s^2 - (sum s)^2, a = log sigma(f_k - f_m), s = sigma(f_m - f_k).
void one_vs_each_variances(const ScoreRows& rows, std::span<const double> p, std::span<double> of_values,
                           std::span<double> of_gradients);

}  // namespace manyclass
