// Alternatives drawn among those that a chooser may choose, with their inclusion weights.
//
// Without lists, a draw is uniform over all alternatives but the chosen one, or with some probability the choice of a
// row drawn by chance: q(k) = (1 - share) / K + share n_k / n. m draws with replacement have alpha = (1 - q(y)) / (m
// q(k)). From a list of n, m distinct ones are drawn, alpha = (n - 1) / m, or all of them where there are no more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ChoiceDraws {
  std::span<const Offset> indptr;       // lists of all rows, see ChoiceData
  std::span<const Index> alternatives;  // increasing within a row
  bool listed_only = false;
  std::span<const Offset> rows;    // those to draw for, whose numbers name their draws
  std::span<const Index> chosen;   // by all rows; popular alternatives are drawn from these
  std::span<const double> shares;  // K, n_k / n of them
  double share = 0;                // of draws that are popular alternatives
  int n_draws = 1;
  std::uint64_t seed = 0, epoch = 0;
  int n_threads = 1;

  std::size_t n_rows() const { return indptr.size() - 1; }
  std::size_t n_alternatives() const { return shares.size(); }
};

// Lists of rows: the chosen alternative of each first, with a weight of 1, then those drawn.
struct DrawnSets {
  std::vector<Offset> indptr;
  std::vector<Index> alternatives;
  std::vector<double> log_weights;
  std::vector<Offset> entries;  // where the lists of all rows have each pair; -1: nowhere
};

// Throws std::invalid_argument where sizes do not fit or a row has chosen what it could not.
DrawnSets draw_choice_sets(const ChoiceDraws& draws);

}  // namespace manyclass
