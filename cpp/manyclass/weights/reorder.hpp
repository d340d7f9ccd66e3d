// Functions that put the classes of a weight matrix into another order, in place.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/types.hpp"

namespace manyclass {

// Makes row[k] <- row[source[k]] in each of the rows of `stride` floats (feature-major weights). The padding beyond the
// classes stays.
inline void reorder_columns(std::span<float> weights, std::size_t stride, std::span<const Index> source,
                            int n_threads) {
  if (stride == 0) return;
  const std::size_t n_rows = weights.size() / stride;
  run_team(n_threads, [&](Member me) {
    std::vector<float> old(source.size());
    const auto [first, last] = me.share(n_rows);
    for (std::size_t j = first; j < last; ++j) {
      float* row = weights.data() + j * stride;
      std::copy_n(row, source.size(), old.data());
      for (std::size_t k = 0; k < source.size(); ++k) row[k] = old[static_cast<std::size_t>(source[k])];
    }
  });
}

// Makes row k <- row source[k] of the rows of `width` floats (class-major weights), one cycle of the permutation after
// the other.
inline void reorder_rows(std::span<float> weights, std::size_t width, std::span<const Index> source) {
  const auto row = [&](std::size_t k) { return weights.subspan(k * width, width); };
  std::vector<char> done(source.size());
  std::vector<float> first_row(width);
  for (std::size_t start = 0; start < source.size(); ++start) {
    if (done[start]) continue;
    std::ranges::copy(row(start), first_row.begin());
    std::size_t k = start;
    while (true) {
      done[k] = 1;
      const auto from = static_cast<std::size_t>(source[k]);
      if (from == start) break;
      std::ranges::copy(row(from), row(k).begin());
      k = from;
    }
    std::ranges::copy(first_row, row(k).begin());
  }
}

}  // namespace manyclass
