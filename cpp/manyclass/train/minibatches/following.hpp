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

#include "manyclass/train/minibatches/class_source.hpp"

namespace manyclass {

class Following {
 public:
  // Of each row the index has the first n_columns. The inner products of a query are those with the centroids and with
  // the rows of the probed clusters.
  template <class ClusteredIndex>
  Following(const SourceSettings& settings, const ClusteredIndex& index, SearchOptions options)
      : classes_(settings.classes.rows()),
        n_columns_(settings.n_columns),
        row_cost_(static_cast<double>(index.n_clusters())),
        waits_(classes_.size()) {
    const double n_probed = static_cast<double>(index.n_rows()) * static_cast<double>(options.n_probe) / row_cost_;
    query_cost_ = row_cost_ + (options.fill ? static_cast<double>(options.budget) : n_probed);
  }

  // Called by all members after rows `moved` have changed: where rows are to be put right, each member copies a share
  // of them, and then calls put(begin, end) for that share.
  template <class Put>
  void follow(Member me, std::span<const Index> moved, std::size_t n_queries, const Put& put) {
    if (me.rank() == 0) note(moved, n_queries);
    me.barrier();
    if (!due_) return;
    const auto [begin, end] = me.share(rows_.size());
    copy(begin, end);
    me.barrier();
    put(begin, end);
    me.barrier();
  }

  // What put() has to put right: rows, and their values from one of them on.
  std::span<const Index> ids() const { return rows_; }
  RowsView values(std::size_t begin = 0) const { return {values_.data() + begin * n_columns_, n_columns_}; }

 private:
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

  void copy(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::ranges::copy(classes_[rows_[i]].first(n_columns_),
                        values_.begin() + static_cast<std::ptrdiff_t>(i * n_columns_));
    }
  }

  VectorRows classes_;
  std::size_t n_columns_;
  double row_cost_, query_cost_ = 0;
  double spent_ = 0;
  bool due_ = false;
  std::vector<char> waits_;  // by row
  std::vector<Index> rows_;
  std::vector<float> values_;
};

}  // namespace manyclass
