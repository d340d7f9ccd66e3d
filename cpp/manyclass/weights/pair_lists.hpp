// Lists of pairs of a feature and a class: the union of two of them, and numbers that stand beside their pairs.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/lists.hpp"

namespace manyclass {

// The classes of each feature in one list or the other, sorted and distinct, and where the pairs of both are in it.
struct PairUnion {
  std::vector<Offset> indptr;  // D + 1
  std::vector<Index> classes;
  std::vector<Offset> own, other;  // a place for each pair, increasing

  // Writes numbers of one's own pairs to their places, and 0 to the others.
  void spread(std::span<const float> numbers, std::span<float> out) const;

  // Writes a * x + b * y, x being a number of one's own pair and y one of the other list, or 0 where there is none.
  // Either may be empty: all are 0.
  void sum(float a, std::span<const float> x, float b, std::span<const float> y, std::span<float> out) const;
};

// Class k of `own` is class position[k] of n_classes, which increase; those of `other` are these classes already.
// Throws std::invalid_argument where lists are not of as many features, sorted and in range.
PairUnion union_of(const Excluded& own, std::span<const Index> position, const Excluded& other, std::size_t n_classes);

// Adds the weights of rows (empty: 1) to the count of each pair of which a row has both, the feature with a value that
// is not 0, and, times the number of their labels, to the total of each of their features. Sums of a call are in
// double.
void count_pairs(const CsrView& x, const Excluded& labels, std::span<const double> row_weights, const Excluded& pairs,
                 std::size_t n_classes, std::span<float> counts, std::span<float> totals);

}  // namespace manyclass
