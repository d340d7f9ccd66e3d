// Lower bounds of log p(y = k) of the softmax from the scores f of a point, with their gradients in f.
//
// They are meant for studying bounds: each costs O(K) a point or more, in double precision.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "manyclass/evaluate/score_rows.hpp"

namespace manyclass {

// -sum_j log(1 + sum_{m in B_j, m != k} e^{f_m - f_k}) over blocks B of classes (Titsias, NIPS 2016, Proposition 1):
// the softmax where all classes are in one block, one-vs-each where each is one. blocks[m], in [0, n_classes), is the
// block of class m: a number for each class, or for each class of each row.
void block_bounds(const ScoreRows& rows, std::span<const Index> blocks, const ScoreBounds& out);

// Bouchard's f_k - a - sum_m log(1 + e^{f_m - a}) at a number a for each row.
void bouchard_bounds(const ScoreRows& rows, std::span<const double> a, const ScoreBounds& out);

// The a of each row for which that is largest, the only root of sum_m sigma(f_m - a) = 1, to within a few units in the
// last place of the larger of 1 and the two best scores.
std::vector<double> bouchard_locations(std::span<const double> f, std::size_t n_classes);

// The tangent of -log at e^u: values log A, A = 1 + sum_{m != k} e^{f_m - f_k}, and the gradient of -e^-u A at a number
// u for each row; none: u = log A.
void tangent_slopes(const ScoreRows& rows, std::span<const double> u, const ScoreBounds& out);

// The evidence lower bound of augment and reduce with Gumbel noise at a Gumbel q of location mu and scale s for each
// row: 1 - mu + gamma (1 - s) + log s - E A, E A = A e^-mu Gamma(1 + s) with the A above. Slopes are in mu and s, two a
// row.
void gumbel_bounds(const ScoreRows& rows, std::span<const double> mu, std::span<const double> s,
                   const ScoreBounds& out);

// The number of the block of each class, blocks that have classes being counted. Block j has the sizes[j] classes that
// follow those of the block before it. Throws std::invalid_argument where a class stands in several blocks, or one that
// is not the k of each row in none; such a k is in block 0.
std::vector<Index> block_numbers(std::span<const Index> classes, std::span<const Offset> sizes,
                                 std::span<const Index> labels, std::size_t n_classes);

// The share of rows whose best score (of several the first) is not that of their class, and the mean of -log p(k).
std::pair<double, double> predictive_scores(const ScoreRows& rows);

// The one-vs-each bound of each class at scores that are the same for all points. It takes O(K^2) time.
std::vector<double> one_vs_each_of_classes(std::span<const double> f);

}  // namespace manyclass
