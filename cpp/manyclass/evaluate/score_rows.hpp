// Rows of scores with a class each, for which bounds of log-probabilities are made.
#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ScoreRows {
  std::span<const double> f;  // n rows of n_classes scores, whose differences are finite
  std::size_t n_classes = 0;
  std::span<const Index> labels;  // k of each row

  std::size_t size() const { return labels.size(); }
  std::span<const double> row(std::size_t i) const { return f.subspan(i * n_classes, n_classes); }
};

// Where results are written to: n values, n rows of gradients, and n derivatives in a variational parameter.
struct ScoreBounds {
  std::span<double> values, gradients, slopes;
};

// Throws std::invalid_argument where scores and classes do not fit each other.
inline void check(const ScoreRows& rows) {
  const auto outside = [&](Index k) { return k < 0 || static_cast<std::size_t>(k) >= rows.n_classes; };
  if (rows.n_classes < 2 || rows.f.size() != rows.size() * rows.n_classes ||
      std::ranges::any_of(rows.labels, outside)) {
    throw std::invalid_argument("the scores and the classes do not fit each other");
  }
}

inline std::span<double> row_of(std::span<double> all, std::size_t i, std::size_t width) {
  return all.subspan(i * width, width);
}

// A bound that depends on f_k - f_m alone has the gradient -slope at the others, and their sum at k. `slopes` are the
// derivatives in f_k - f_m, and are overwritten.
inline void to_gradient(std::span<double> slopes, std::size_t k) {
  double total = 0;
  for (std::size_t m = 0; m < slopes.size(); ++m) {
    if (m == k) continue;
    total += slopes[m];
    slopes[m] = -slopes[m];
  }
  slopes[k] = total;
}

}  // namespace manyclass
