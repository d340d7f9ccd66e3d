// How far the changes that several shards have made of one matrix of weights count where they are added up.
//
// A pass of steps eta along a parabola of curvature h goes the share 1 - e^-a of the way to its minimum, a = eta h. A
// change counts a / (1 - e^-a) times, and the sum of those of all shards, with A = sum a, (1 - e^-A) / A times: the sum
// for short ways, the mean for long ones. python/manyclass/dask/passes.py derives it.
#pragma once

#include <span>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Curvatures by row and column of the matrix: in the form of CSR, or without indptr all of them, row by row.
struct Curvatures {
  std::span<const Offset> indptr;
  std::span<const Index> indices;
  std::span<const double> values;
};

// a = least + moved_least [a weight moved] + rate_r coupling h_rc, in row r and column c.
struct Ways {
  Curvatures curvatures;
  std::span<const double> rates;  // of each row
  double coupling = 1;
  double least = 0;  // above 0
  double moved_least = 0;
  std::span<const float> n_moved;  // how many shards moved each weight; none: whether it is not 0
};

// Multiplies each number by a / (1 - e^-a), or by (1 - e^-a) / a where `inverse`. Throws std::invalid_argument where
// sizes do not fit.
void multiply_by_ways(std::span<float> matrix, const Ways& ways, bool inverse);

// Adds a share of each row of `change` to the row of `total` that it is of, and, where n_moved is not empty, to the
// numbers of those that have moved: the share for each number that is not 0.
struct RowChanges {
  std::span<const Index> rows;
  std::span<const float> matrix;  // a row for each of `rows`
  std::span<const float> shares;  // likewise
};
void add_changes(const RowChanges& changes, std::span<float> total, std::span<float> n_moved, std::size_t width);

// What curvatures are to be multiplied by, where up to `together` weights push a score together.
//
// Of n equal shards with a curvature a / n each, the merge goes along a direction of `together` = m times that
// curvature (1 - e^{-ma/n kappa}) (1 - e^-a) / (1 - e^{-a/n}) times as far as the optimum, a standing for the product
// with the result kappa: the smallest one, 1 or more, for which this is at most `furthest` for all a.
double coupling_of(std::size_t n_shards, double together, double furthest);

}  // namespace manyclass
