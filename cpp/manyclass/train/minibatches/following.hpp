// When an index follows the rows that training moves: as often as that costs no more than the searches do.
//
// A search costs so many inner products, and so does finding the nearest cluster of a row that has moved (Y21: C of
// them). Rows that have moved wait until the searches since the last time have cost as much as putting them right will:
// a margin's few rows then follow at once, the softmax's many now and then. Counts decide, not clocks, so results can
// be repeated.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "manyclass/search/cluster_index.hpp"
#include "manyclass/weights/vector_rows.hpp"

namespace manyclass {

class Following {
 public:
  // Of each row the index has the first n_columns.
  Following(VectorRows classes, std::size_t n_columns, double query_cost, double row_cost)
      : classes_(classes),
        n_columns_(n_columns),
        query_cost_(query_cost),
        row_cost_(row_cost),
        waits_(classes.size()) {}

  void note(std::span<const Index> moved, std::size_t n_queries) {
    if (due_) {
      for (const Index k : rows_) waits_[static_cast<std::size_t>(k)] = false;
      rows_.clear();
      spent_ = 0;
    }
    for (const Index k : moved) {
      if (waits_[static_cast<std::size_t>(k)]) continue;
      waits_[static_cast<std::size_t>(k)] = true;
      rows_.push_back(k);
    }
    spent_ += query_cost_ * static_cast<double>(n_queries);
    due_ = !rows_.empty() && row_cost_ * static_cast<double>(rows_.size()) <= spent_;
    if (!due_) return;
    values_.resize(rows_.size() * n_columns_);
  }

  // Rows are to be put right now: ids() with the values that copy() has made of them.
  bool due() const { return due_; }
  std::span<const Index> ids() const { return rows_; }
  RowsView values(std::size_t begin = 0) const { return {values_.data() + begin * n_columns_, n_columns_}; }

  void copy(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::ranges::copy(classes_[rows_[i]].first(n_columns_),
                        values_.begin() + static_cast<std::ptrdiff_t>(i * n_columns_));
    }
  }

 private:
  VectorRows classes_;
  std::size_t n_columns_;
  double query_cost_, row_cost_;
  double spent_ = 0;
  bool due_ = false;
  std::vector<char> waits_;  // by row
  std::vector<Index> rows_;
  std::vector<float> values_;
};

}  // namespace manyclass
