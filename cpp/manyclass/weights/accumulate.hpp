// A running sum of whole weight matrices, total += g W, where g is a factor of each class; sums beyond single precision
// stay at its end, so that a mean of numbers is a number.
#pragma once

#include <limits>
#include <span>
#include <stdexcept>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/simd.hpp"

namespace manyclass {

// Adds to `total` a matrix with `n_columns` columns. The factors belong to the columns (`of_columns`) or to the rows;
// without factors all are one.
inline void accumulate(std::span<float> total, std::span<const float> weights, std::size_t n_columns,
                       std::span<const float> factors, bool of_columns, int n_threads) {
  if (total.size() != weights.size()) throw std::invalid_argument("the total is not shaped as the weights are");
  if (n_columns == 0) return;
  if (factors.size() > (of_columns ? n_columns : weights.size() / n_columns)) {
    throw std::invalid_argument("there are more factors than classes");
  }
  const auto held = [](float sum) {
    constexpr float most = std::numeric_limits<float>::max();
    return sum > most ? most : sum < -most ? -most : sum;
  };
  const auto of_column = of_columns ? factors : std::span<const float>();
  const auto of_row = of_columns ? std::span<const float>() : factors;
  run_team(n_threads, [&](Member me) {
    const auto [first, last] = me.share(weights.size() / n_columns);
    run_with(best_isa(), [&, first = first, last = last] {  // copies: Clang 14 refuses a binding in a lambda
      for (std::size_t r = first; r < last; ++r) {
        float* sum = total.data() + r * n_columns;
        const float* w = weights.data() + r * n_columns;
        if (of_column.empty()) {
          const float g = of_row.empty() ? 1.0F : of_row[r];
          for (std::size_t c = 0; c < n_columns; ++c) sum[c] = held(sum[c] + g * w[c]);
        } else {
          for (std::size_t c = 0; c < of_column.size(); ++c) sum[c] = held(sum[c] + of_column[c] * w[c]);
        }
      }
    });
  });
}

}  // namespace manyclass
