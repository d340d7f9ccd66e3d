// The softmax of dense rows h over lists of dense rows v, and its expectations: what exact descent on word vectors asks
// for. Rows of h come in groups, each with a list of its own, or all rows of v stand for every list:
//
//   log Z_x = log sum_{y in list} c_y e^{h_x.v_y},   p_xy = c_y e^{h_x.v_y} / Z_x.
//
// The first rows of a list, those that were found, count once (c_y = 1). Each of the others, which were drawn, stands
// for several rows of v.
#pragma once

#include <span>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/lists.hpp"
#include "manyclass/core/simd.hpp"

namespace manyclass {

// Rows of h in groups, and the lists of rows of v that these share.
struct RowGroups {
  std::span<const Offset> row_starts;   // group g has the rows [row_starts[g], row_starts[g + 1])
  std::span<const Index> rows;          // distinct
  std::span<const Offset> list_starts;  // and the list [list_starts[g], list_starts[g + 1])
  std::span<const Index> list;
  std::span<const Index> n_found;            // in the list of each group
  std::span<const float> drawn_log_weights;  // log c_y of the others, a number for each group
};

struct RowSoftmax {
  std::span<const float> input, output;  // h and v, rows of `width` numbers each
  std::size_t width = 0;
  RowGroups groups;  // without lists: every list is all rows of v
  int n_threads = 1;
  Isa isa{};

  std::size_t n_inputs() const { return input.size() / width; }
  std::size_t n_outputs() const { return output.size() / width; }
};

// Where the results are added to; no numbers: not asked for.
struct RowSums {
  std::span<double> log_z{};            // log Z_x of each row of h that is in a group
  std::span<float> input_gradient{};    // sum_y p_xy v_y, added to the row of x
  std::span<const double> weights{};    // q_x, one for each row of h
  std::span<double> output_gradient{};  // sum_x q_x p_xy h_x, added to the row of y, for the y that were found
  Excluded left_out{};  // rows of v that get nothing of x in `output_gradient`, a list for each of groups.rows
};

// Throws std::invalid_argument where rows are out of range or sizes do not fit. Numbers that overflow give NaN.
void add_row_softmax(const RowSoftmax& question, const RowSums& sums);

// -sum_y q_y log p(y | h_x) of some rows of h, p being that of a binary tree with the vectors v at its inner nodes. The
// path to y passes the nodes [starts[y], starts[y + 1]), each with sign +1 or -1. q of the row x of h is
// observed.row(x).
struct TreePaths {
  std::span<const Offset> starts;
  std::span<const Index> nodes;
  std::span<const float> signs;
};
void tree_losses(const RowSoftmax& question, const TreePaths& tree, const CsrView& observed, std::span<double> losses);

}  // namespace manyclass
