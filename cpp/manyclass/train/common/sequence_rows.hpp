// Rows that are prefixes of sequences of items, such as the visits of a shop: features are the items before, and the
// label is the next one. The rows of one sequence are found by their sets: a row that has another's items and its label
// comes after it.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct Prefixes {
  std::span<const Offset> indptr;
  std::span<const Index> features;  // of each row, distinct
  std::span<const Index> next;      // the feature that is the row's label, -1 where there is none

  std::size_t size() const { return next.size(); }
};

// Throws std::invalid_argument where sizes do not fit.
void check(const Prefixes& prefixes);

struct SequenceRows {
  double rows_a_sequence = 0;   // rows for one that has a single feature, as the first of a sequence does
  double share_following = 0;   // of rows with several features, those that come after another row
  std::vector<Index> together;  // the rows asked about and those of the same sequences, ascending
};

// Where more than `most` rows may come next, or before, it is not known which of them does, and none is taken.
SequenceRows sequence_rows(const Prefixes& prefixes, std::span<const Index> rows, std::size_t most);

}  // namespace manyclass
