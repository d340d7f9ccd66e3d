// Lower bounds of log p(y = k) of the softmax from the scores f of a point, with their gradients in f.
//
// They are meant for studying bounds: each costs O(K) a point or more, in double precision.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ScoreRows {
  std::span<const double> f;  // n rows of n_classes scores, whose differences are finite
  std::size_t n_classes = 0;
  std::span<const Index> labels;  // k of each row

  std::size_t size() const { return labels.size(); }
  std::span<const double> row(std::size_t i) const { return f.subspan(i * n_classes, n_classes); }
};

// Where results are written to: n values, n rows of gradients, and n derivatives in a variational parameter.
struct ScoreBounds {
  std::span<double> values, gradients, slopes;
};

// -sum_j log(1 + sum_{m in B_j, m != k} e^{f_m - f_k}) over blocks B of classes (Titsias, NIPS 2016, Proposition 1): the
// softmax where all classes are in one block, one-vs-each where each is one. blocks[m], in [0, n_classes), is the block
// of class m: a number for each class, or for each class of each row.
void block_bounds(const ScoreRows& rows, std::span<const Index> blocks, const ScoreBounds& out);

// Bouchard's f_k - a - sum_m log(1 + e^{f_m - a}) at a number a for each row.
void bouchard_bounds(const ScoreRows& rows, std::span<const double> a, const ScoreBounds& out);

// The a of each row for which that is largest, the only root of sum_m sigma(f_m - a) = 1, to within a few units in the
// last place of the larger of 1 and the two best scores.
std::vector<double> bouchard_locations(std::span<const double> f, std::size_t n_classes);

// The tangent of -log at e^u: values log A, A = 1 + sum_{m != k} e^{f_m - f_k}, and the gradient of -e^-u A at a number u
// for each row; none: u = log A.
void tangent_slopes(const ScoreRows& rows, std::span<const double> u, const ScoreBounds& out);

// One-vs-each with a weight for each class of each row, sum_m c_m log sigma(f_k - f_m) over m != k: an estimate of it
// where weights are how often a class was drawn over how often it was to be.
void weighted_one_vs_each(const ScoreRows& rows, std::span<const double> weights, const ScoreBounds& out);

// The proposal p(m), 0 at k, in proportion to sigma(f_m - f_k), mixed with a share of the uniform one, for each class of
// each row: the one by which that estimate varies the least (Titsias, NIPS 2016, leaves it open in section 3).
void one_vs_each_proposal(const ScoreRows& rows, double uniform, std::span<double> p);

// Variances of the estimate by one draw from p, and the sum of those of its derivatives:
//   sum a^2 / p - (sum a)^2   and   2 sum s^2 / p - sum s^2 - (sum s)^2,   a = log sigma(f_k - f_m), s = sigma(f_m - f_k).
void one_vs_each_variances(const ScoreRows& rows, std::span<const double> p, std::span<double> of_values,
                           std::span<double> of_gradients);

}  // namespace manyclass
