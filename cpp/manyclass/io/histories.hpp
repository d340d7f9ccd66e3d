// Histories of items as sparse rows, in which the last items weigh the most.
//
// The value of an item is the sum of (1 + s)^-decay over the steps s back from the end of its history at which it
// stands, 0 being the last one.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Items of all histories, one behind the other, by number; history i is [begins[i], ends[i]).
struct Histories {
  std::span<const Index> items;
  std::span<const Offset> begins, ends;
  std::size_t n_last = 0;  // items at the end of a history that count
};

// Rows in the form of CSR, columns increasing.
struct HistoryRows {
  std::vector<Offset> indptr;
  std::vector<Index> indices;
  std::vector<float> data;
};

// Rows of unit length. Throws std::invalid_argument where a history is not within the items.
HistoryRows recency_rows(const Histories& histories, double decay);

// Items that have a number, of sequences one behind the other whose other items are -1: sequence i is
// items[starts[i]:starts[i + 1]].
struct KnownItems {
  std::vector<Index> items;
  std::vector<Offset> starts;
};
KnownItems known_items(std::span<const Index> items, std::span<const Offset> starts);

// Each beginning of the known items of a sequence that has an item, with the known item that came next. The first
// `n_first[i]` items of sequence i, known or not, are labels of none. Row r is known.items[begins[r]:ends[r]].
struct NextItems {
  KnownItems known;
  std::vector<Offset> begins, ends, labels, sequences;
};
NextItems next_items(std::span<const Index> items, std::span<const Offset> starts, std::span<const Offset> n_first);

}  // namespace manyclass
