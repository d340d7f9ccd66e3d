// Classes drawn from the softmax of known weights: data for which the best possible log-loss is known.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Rows of a few patterns: pattern p has the features [p nnz, (p + 1) nnz) of `features`, each with the same value.
struct PatternPool {
  std::span<const Index> features;
  std::size_t nnz = 0;
  double value = 0;
  std::span<const double> weights;  // n_classes rows of n_features numbers
  std::size_t n_features = 0;

  std::size_t n_patterns() const { return features.size() / nnz; }
  std::size_t n_classes() const { return weights.size() / n_features; }
};

struct SoftmaxDraws {
  std::vector<Offset> classes;    // of each row
  std::vector<double> log_p;      // of these
  std::vector<double> entropies;  // of each pattern, in nats
};

// The class of each row, whose pattern is given, by inversion: uniforms, one for each row, are taken by the rows of the
// first pattern in their order, then by those of the second, and so on. The softmax over all classes is computed once
// for each pattern. Throws std::invalid_argument where a pattern or a feature is out of range.
SoftmaxDraws draw_from_softmax(const PatternPool& pool, std::span<const Offset> pattern_of_row,
                               std::span<const double> uniforms);

}  // namespace manyclass
