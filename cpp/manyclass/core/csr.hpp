// Views of a data matrix, one row a point: sparse (CSR) or dense (row-major).
#pragma once

#include <variant>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct CsrView {
  using Row = SparseRow;

  std::span<const Offset> indptr;  // n_rows + 1 positions; of a whole matrix, indptr[0] == 0
  std::span<const Index> indices;
  std::span<const float> data;
  Index n_cols = 0;

  Index n_rows() const { return static_cast<Index>(indptr.size()) - 1; }
  SparseRow row(Index i) const {
    const auto begin = static_cast<std::size_t>(indptr[static_cast<std::size_t>(i)]);
    const auto size = static_cast<std::size_t>(indptr[static_cast<std::size_t>(i) + 1]) - begin;
    return {indices.subspan(begin, size), data.subspan(begin, size)};
  }
  CsrView rows_from(std::size_t begin, std::size_t n) const {
    return {indptr.subspan(begin, n + 1), indices, data, n_cols};
  }
};

struct DenseView {
  using Row = DenseRow;

  std::span<const float> data;  // n_rows * n_cols
  Index rows = 0;
  Index n_cols = 0;

  Index n_rows() const { return rows; }
  DenseRow row(Index i) const {
    const auto width = static_cast<std::size_t>(n_cols);
    return data.subspan(static_cast<std::size_t>(i) * width, width);
  }
  DenseView rows_from(std::size_t begin, std::size_t n) const {
    const auto width = static_cast<std::size_t>(n_cols);
    return {data.subspan(begin * width, n * width), static_cast<Index>(n), n_cols};
  }
};

using AnyData = std::variant<DenseView, CsrView>;

inline Index n_rows(const AnyData& x) {
  return std::visit([](const auto& data) { return data.n_rows(); }, x);
}
inline Index n_cols(const AnyData& x) {
  return std::visit([](const auto& data) { return data.n_cols; }, x);
}

// Throws std::invalid_argument where reading the matrix would leave its memory.
void check(const CsrView& x);

// Whether check(x) passes, the columns of each row increase, and all values are finite.
bool is_canonical(const CsrView& x);

}  // namespace manyclass
