// See shrinking.hpp.
#include "manyclass/exact/shrinking.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "manyclass/core/simd.hpp"
#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

ShrinkingGains shrinking_gains(std::span<const float> scores, std::span<const float> intercept,
                               std::span<const Index> labels, std::span<const double> factors) {
  const std::size_t n = labels.size(), width = intercept.size();
  if (scores.size() != n * width) throw std::invalid_argument("there must be a score of each class for each point");
  for (const Index y : labels) {
    if (y < 0 || static_cast<std::size_t>(y) >= width) throw std::invalid_argument("a label is out of range");
  }
  std::vector<double> z(width);
  const auto loss = [&](std::size_t i, double factor) {
    for (std::size_t k = 0; k < width; ++k) {
      const auto b = static_cast<double>(intercept[k]);
      z[k] = factor * (static_cast<double>(scores[i * width + k]) - b) + b;
    }
    const double own = z[static_cast<std::size_t>(labels[i])];
    for (double& score : z) score -= own;
    return log_sum_exp(z);
  };
  ShrinkingGains gains{std::vector<double>(factors.size()), std::vector<double>(factors.size())};
  run_with(best_isa(), [&] {
    for (std::size_t i = 0; i < n; ++i) {
      const double now = loss(i, 1);
      for (std::size_t f = 0; f < factors.size(); ++f) {
        const double gain = now - loss(i, factors[f]);
        gains.sums[f] += gain;
        gains.squares[f] += gain * gain;
      }
    }
  });
  return gains;
}

double best_shrinking(std::span<const double> sums, std::span<const double> squares, std::span<const double> factors,
                      double n) {
  if (factors.empty() || sums.size() != factors.size() || squares.size() != factors.size() || !(n > 0)) {
    throw std::invalid_argument("there must be sums and squares of each factor, of one point at least");
  }
  const auto best = static_cast<std::size_t>(std::ranges::max_element(sums) - sums.begin());
  const double mean = sums[best] / n, variance = std::max(squares[best] / n - mean * mean, 0.0);
  return mean > 2 * std::sqrt(variance / n) ? factors[best] : 1;
}

}  // namespace manyclass
