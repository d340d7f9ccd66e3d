// What a loss of a point with one or several labels sees, and what it gives back.
//
// A loss, of concept LossOfLabels, is a struct with
//
//   double operator()(const LabelScores& z, LabelGradient& g, LossMemory& memory) const
//
// which returns L(z, P) and writes dL/dz_k for every class. P are the point's labels, all of them listed; of the wrong
// classes some are listed, and `rest` others count as having one common score, or not at all where rest is 0 (Yen et
// al. 2018, Algorithm 1, takes the score 0 for classes that a search has not found; a mask leaves them out).
#pragma once

#include <concepts>
#include <span>
#include <vector>

#include "manyclass/core/facts.hpp"

namespace manyclass {

struct LabelScores {
  std::span<const float> positives;  // z_k, k in P; not empty
  std::span<const float> negatives;  // z_k of listed wrong classes, in any order
  double rest = 0;                   // number of wrong classes that are not listed,
  float rest_score = 0;              // and the score of each
};

struct LabelGradient {
  std::span<float> positives;
  std::span<float> negatives;
  double rest = 0;  // of each class of the rest
};

// Room that losses need, kept between calls.
struct LossMemory {
  std::vector<float> floats;
  std::vector<float> more_floats;
  std::vector<double> doubles;
};

// `top_is_enough(g)` says whether the gradient g of the highest wrong classes alone is that of all wrong classes.
template <class Loss>
concept LossOfLabels = requires(const Loss loss, const LabelScores& z, LabelGradient& g, LossMemory& memory) {
  { Loss::facts } -> std::convertible_to<Facts>;
  { loss(z, g, memory) } -> std::same_as<double>;
  { loss.top_is_enough(g) } -> std::same_as<bool>;
};

}  // namespace manyclass
