// Scaling of a sparse matrix, of any types of values and positions, by rows or by columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

namespace manyclass {

// The values divided by the Euclidean norm of their row; those of rows of zeros stay. indptr tells where rows begin.
template <class Value, class Position>
std::vector<Value> unit_rows(std::span<const Value> values, std::span<const Position> indptr) {
  const auto size = static_cast<Position>(values.size());
  if (indptr.empty() || indptr.front() < 0 || indptr.back() > size || !std::ranges::is_sorted(indptr)) {
    throw std::invalid_argument("indptr does not fit the values");
  }
  std::vector<Value> scaled(values.begin(), values.end());
  for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
    const auto begin = static_cast<std::size_t>(indptr[i]), end = static_cast<std::size_t>(indptr[i + 1]);
    double squares = 0;
    for (std::size_t at = begin; at < end; ++at) {
      squares += static_cast<double>(values[at]) * static_cast<double>(values[at]);
    }
    const double norm = squares == 0 ? 1.0 : std::sqrt(squares);
    for (std::size_t at = begin; at < end; ++at) {
      scaled[at] = static_cast<Value>(static_cast<double>(values[at]) / norm);
    }
  }
  return scaled;
}

// The largest absolute value of each column; 1 where it is 0.
template <class Value, class Position>
std::vector<double> largest_of_columns(std::span<const Value> values, std::span<const Position> columns,
                                       std::size_t n_columns) {
  if (values.size() != columns.size()) throw std::invalid_argument("values and columns differ in length");
  std::vector<double> largest(n_columns, 0.0);
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (columns[at] < 0 || static_cast<std::size_t>(columns[at]) >= n_columns) {
      throw std::invalid_argument("a column is out of range");
    }
    double& most = largest[static_cast<std::size_t>(columns[at])];
    most = std::max(most, std::fabs(static_cast<double>(values[at])));
  }
  std::ranges::replace(largest, 0.0, 1.0);
  return largest;
}

}  // namespace manyclass
