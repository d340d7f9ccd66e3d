// Factors of weights: see the header.
#include "manyclass/exact/shrinking.hpp"

#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "manyclass/math/bounded_minimum.hpp"
#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

double shrinking_factor(std::span<const float> scores, std::span<const float> intercept, std::span<const Index> labels,
                        double least) {
  const std::size_t n = labels.size(), width = intercept.size();
  if (scores.size() != n * width) throw std::invalid_argument("there must be a score of each class for each point");
  for (const Index y : labels) {
    if (y < 0 || static_cast<std::size_t>(y) >= width) throw std::invalid_argument("a label is out of range");
  }
  std::vector<double> z(width);
  const auto losses = [&](double factor) {
    std::vector<double> found(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < width; ++k) {
        const auto b = static_cast<double>(intercept[k]);
        z[k] = factor * (static_cast<double>(scores[i * width + k]) - b) + b;
      }
      const double own = z[static_cast<std::size_t>(labels[i])];
      for (double& score : z) score -= own;
      found[i] = log_sum_exp(z);
    }
    return found;
  };
  const auto mean = [n](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
  };
  constexpr double close = 0.01;
  const double factor = bounded_minimum([&](double s) { return mean(losses(s)); }, least, 1, close).at;
  std::vector<double> gains = losses(1);
  const std::vector<double> left = losses(factor);
  for (std::size_t i = 0; i < n; ++i) gains[i] -= left[i];
  const double gain = mean(gains);
  for (double& one : gains) one = (one - gain) * (one - gain);
  return gain > 2 * std::sqrt(mean(gains) / static_cast<double>(n)) ? factor : 1;
}

}  // namespace manyclass
