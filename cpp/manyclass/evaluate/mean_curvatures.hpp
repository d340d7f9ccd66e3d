// Means over rows of p_k (1 - p_k), p being the probabilities of a softmax: the curvatures of a log-loss in its
// intercepts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/math/elementary_double.hpp"

namespace manyclass {

// The mean of p (1 - p) of each class over rows. score(first, scores) fills `scores` with those of rows from `first`
// on.
inline std::vector<double> mean_curvatures(std::size_t n_rows, std::size_t n_classes,
                                           const std::function<void(std::size_t, std::span<float>)>& score) {
  constexpr std::size_t most = std::size_t{1} << 22;  // scores at once: 16 MB
  const std::size_t step = std::max(std::size_t{1}, most / std::max(n_classes, std::size_t{1}));
  std::vector<double> sums(n_classes), p(n_classes);
  std::vector<float> room(std::min(step, n_rows) * n_classes);
  for (std::size_t first = 0; first < n_rows; first += step) {
    const auto scores = std::span(room).first(std::min(step, n_rows - first) * n_classes);
    score(first, scores);
    for (std::size_t at = 0; at < scores.size(); at += n_classes) {
      poll(32 * n_classes);  // an exponential takes some thirty operations
      const auto z = scores.subspan(at, n_classes);
      const auto top = static_cast<double>(*std::ranges::max_element(z));
      for (std::size_t k = 0; k < n_classes; ++k) p[k] = static_cast<double>(z[k]) - top;
      run_with(best_isa(), [&] {
        for (double& share : p) share = vec::exp(share);
      });
      double total = 0;
      for (const double share : p) total += share;
      for (std::size_t k = 0; k < n_classes; ++k) sums[k] += p[k] / total * (1 - p[k] / total);
    }
  }
  for (double& sum : sums) sum /= static_cast<double>(n_rows);
  return sums;
}

}  // namespace manyclass
