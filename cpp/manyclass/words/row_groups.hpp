// Groups of rows of a similar direction, and a list of words for each: those that a search found for the group's mean,
// and a sample that stands for the rest. A softmax of rows in groups takes them (row_softmax.hpp).
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Rows of a table, each in a cluster.
struct ClusteredRows {
  std::span<const float> table;  // rows of `stride` numbers, of which the first `width` are averaged
  std::size_t stride = 0, width = 0;
  std::span<const Index> rows;
  std::span<const Index> clusters;  // of each of the rows
};

struct GroupedRows {
  std::vector<Index> rows;
  std::vector<Offset> starts;  // group g has the rows [starts[g], starts[g + 1])
  std::vector<float> means;    // `width` numbers for each group
};

// Cuts each cluster, its rows in the order given, into groups of at most `most`. Throws std::invalid_argument where
// rows are out of the table or sizes do not fit.
GroupedRows groups_of_clusters(const ClusteredRows& of, std::size_t most);

struct GroupLists {
  std::vector<Offset> starts;
  std::vector<Index> list;               // of each group the words found, ascending, and then those drawn
  std::vector<Index> n_found;            // of each group
  std::vector<float> drawn_log_weights;  // log(words not found / words drawn) of each group
};

// `found` has `width` words for each group; negative ones are none. `order` has all words in a random order, which is
// cut into as many parts as there are whole `width`s in it: group g draws what is in part g, g counted around, and not
// found.
GroupLists group_lists(std::span<const Index> found, std::size_t width, std::span<const Index> order);

}  // namespace manyclass
