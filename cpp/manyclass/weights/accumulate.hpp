// A running sum of whole weight matrices, total += g W, where g is a factor of each class.
#pragma once

#include <span>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/simd.hpp"

namespace manyclass {

// Adds to `total` a matrix with `n_columns` columns. The factors belong to the columns (`of_column`) or to the rows
// (`of_row`); both spans empty stand for ones.
inline void accumulate(std::span<float> total, std::span<const float> weights, std::size_t n_columns,
                       std::span<const float> of_column, std::span<const float> of_row, int n_threads) {
  if (n_columns == 0) return;
  run_team(n_threads, [&](Member me) {
    const auto [first, last] = me.share(weights.size() / n_columns);
    run_with(best_isa(), [&] {
      for (std::size_t r = first; r < last; ++r) {
        float* sum = total.data() + r * n_columns;
        const float* w = weights.data() + r * n_columns;
        if (of_column.empty()) {
          const float g = of_row.empty() ? 1.0F : of_row[r];
          for (std::size_t c = 0; c < n_columns; ++c) sum[c] += g * w[c];
        } else {
          for (std::size_t c = 0; c < of_column.size(); ++c) sum[c] += of_column[c] * w[c];
        }
      }
    });
  });
}

}  // namespace manyclass
