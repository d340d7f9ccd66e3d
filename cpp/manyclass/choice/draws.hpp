// Alternatives drawn among those that a chooser may choose, with their inclusion weights.
//
// Without lists, a draw is uniform over all alternatives but the chosen one, or with some probability the choice of a
// row drawn by chance: q(k) = (1 - share) / K + share n_k / n. m draws with replacement have alpha = (1 - q(y)) / (m
// q(k)). From a list of n, m distinct ones are drawn, alpha = (n - 1) / m, or all of them where there are no more.
// Lists that are not all that may be chosen only have features of pairs and offsets of what was drawn.
#pragma once

#include <cstdint>
#include <span>

#include "manyclass/choice/lists.hpp"

namespace manyclass {

struct ChoiceDraws {
  const ChoiceLists* lists = nullptr;  // of all rows
  std::span<const Offset> rows;        // those to draw for, whose numbers name their draws
  std::span<const Index> chosen;       // by all rows; popular alternatives are drawn from these
  std::span<const double> shares;      // K, n_k / n of them; needed where share > 0
  double share = 0;                    // of draws that are popular alternatives
  Index n_alternatives = 0;
  int n_draws = 1;
  std::uint64_t seed = 0, epoch = 0;
  int n_threads = 1;
};

// The lists of `rows`: the chosen alternative of each first, with a weight of 1, then those drawn.
ChoiceLists draw_choice_sets(const ChoiceDraws& draws);

}  // namespace manyclass
