// The best rows of one query: kept by bounds while rows are scanned, then by exact scores.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/search/codes.hpp"
#include "manyclass/search/exact.hpp"

namespace manyclass {

// Bounds of the scores of one group: middle - radius <= score <= middle + radius.
struct GroupBounds {
  std::array<float, group_rows> middle;
  std::array<float, group_rows> radius;
};

// A row can be among the k best only if its upper bound reaches the k-th best lower bound, the bar. Rows that reach the
// bar are kept; now and then, once so many have come that it pays, the bar is raised and those below it are dropped.
// With k = 0 the bar stays where it was set: all rows above a threshold.
class Best {
 public:
  // `excluded` is sorted; is_exact says that radii will be 0.
  void start(std::size_t k, float bar, std::span<const Index> excluded, bool is_exact = false);

  float bar() const { return bar_; }

  // Keeps the rows of a group that may be among the best.
  void offer(const GroupBounds& bounds, const std::array<Index, group_rows>& ids);

  // Takes in what a scan of other rows for the same query has kept.
  void merge(const Best& other);

  // The k best, or all above the threshold, by exact score, or where there are no rows by the upper bound; sorted.
  std::span<const Scored> finish(const RowsView& rows, DenseRow q, Isa isa);

 private:
  struct Kept {
    float lower;
    float upper;
    Index id;
  };

  void raise_bar();
  void score(std::span<const Kept> some, const RowsView& rows, DenseRow q, Isa isa);

  std::size_t k_ = 0;
  float bar_ = 0;
  bool is_exact_ = false;
  std::span<const Index> excluded_;
  std::vector<Kept> kept_;
  std::size_t raise_at_ = 0;  // rows kept
  std::vector<Scored> scored_;
};

}  // namespace manyclass
