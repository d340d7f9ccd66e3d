// Alternatives drawn among those that a chooser may choose, with their inclusion weights.
//
// Without lists, a draw is uniform over all alternatives but the chosen one, or with some probability the choice of a
// row drawn by chance: q(k) = (1 - share) / K + share n_k / n. m draws with replacement have alpha = (1 - q(y)) / (m q(k)).
// From a list of n, m distinct ones are drawn, alpha = (n - 1) / m, or all of them where there are no more. Lists that are
// not all that may be chosen only have features of pairs and offsets of what was drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ChoiceDraws {
  std::span<const Index> rows;            // numbers of the rows, which name their draws
  std::span<const Index> chosen;          // one for each
  std::span<const Offset> begins, ends;   // of each row's list in `alternatives`; empty: all may be chosen
  std::span<const Index> alternatives;    // increasing within a list
  std::span<const double> pair_features;  // of those listed
  std::size_t n_pair_features = 0;
  std::span<const double> offsets;  // of those listed, or empty
  bool listed_only = true;          // whether what is not listed cannot be chosen
  std::span<const Index> past;      // choices of rows, from which popular alternatives are drawn; may be empty
  std::span<const double> shares;   // K, n_k / n of `past`
  Index n_alternatives = 0;
  int n_draws = 1;
  double share = 0;
  std::uint64_t seed = 0, epoch = 0;
  int n_threads = 1;

  bool among() const { return listed_only && !begins.empty(); }
};

// The chosen alternative of each row first, with a weight of 1, then those drawn.
struct DrawnSets {
  std::vector<Offset> indptr;
  std::vector<Index> alternatives;
  std::vector<double> log_weights, offsets, pair_features;
};

DrawnSets draw_choice_sets(const ChoiceDraws& draws);

}  // namespace manyclass
