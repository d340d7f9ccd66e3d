// Exact scores: the one place where w.q is computed, so that equal rows score equal bits wherever they are met.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/types.hpp"

namespace manyclass {

// A row with its score; sorted best first, equal scores by id.
struct Scored {
  float score;
  Index id;

  friend bool operator<(const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  }
};

// Row-major rows of one width, read only: floats, or halves in their place.
struct RowsView {
  const float* data = nullptr;
  std::size_t n_features = 0;
  const std::uint16_t* halves = nullptr;

  DenseRow operator[](Index k) const { return {data + static_cast<std::size_t>(k) * n_features, n_features}; }
};

// Writes a row of floats or halves.
void read_row(const RowsView& rows, Index k, Isa isa, std::span<float> row);

// Sets the score of each of `some` to w_id.q, in single precision. Rows are fetched ahead: they may stand anywhere.
void exact_scores(const RowsView& rows, DenseRow q, Isa isa, std::span<Scored> some);

}  // namespace manyclass
