// Short trials before a training: which points they see, which are held out, and which step sizes are tried.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "manyclass/core/lists.hpp"

namespace manyclass {

// Step sizes by exponents: some first ones, then further ones while the best is at an end of those tried.
class StepWalk {
 public:
  // `first` are neighbours, in order; no exponent below `lowest` or above `highest` is tried after them.
  StepWalk(std::vector<int> first, int lowest, int highest);

  // The exponent to try next; none at the end.
  std::optional<int> next() const;
  // Takes in the loss of the exponent that is next; infinite where training diverged.
  void tell(double loss);

  // The first exponent of least loss.
  int best() const;
  const std::vector<int>& exponents() const { return tried_; }
  const std::vector<double>& losses() const { return losses_; }

 private:
  std::vector<int> first_, tried_;
  std::vector<double> losses_;
  int lowest_, highest_;
};

// The rows of whole classes, in order: classes are drawn, as `order` says, until they have `n_rows` rows. None where
// these are fewer than `fewest` classes, which are another problem than all of them; all rows where all classes are
// drawn.
std::optional<std::vector<std::int64_t>> rows_of_whole_classes(std::span<const Index> labels,
                                                               std::span<const std::int64_t> order, std::size_t n_rows,
                                                               std::size_t fewest);

// Which of n folds a point is held out in, each class in turn by the order of the points; -1 for the only one of a
// class.
std::vector<std::int64_t> folds_of(std::span<const Index> labels, std::span<const std::int64_t> order,
                                   std::size_t n_folds);

// Which points to hold out, at most n as `order` has them, so that every label keeps one that is not.
std::vector<bool> spare_points(const Excluded& labels, std::span<const std::int64_t> order, std::size_t n);

// How many points see the same weights: few against the classes, so that two of them rarely move the same row of W, and
// at most as many as keep two cores busy between barriers; the most frequent label comes about once. Where steps move
// all classes, every pair of points shares rows, and a step takes long enough for a barrier after a few.
std::size_t points_of_batch(std::span<const Index> labels, std::size_t n_classes, bool every_class);

}  // namespace manyclass
