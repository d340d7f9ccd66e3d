// See softmax_draws.hpp.
#include "manyclass/select/softmax_draws.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "manyclass/core/interrupt.hpp"

namespace manyclass {

namespace {

void check(const PatternPool& pool, std::span<const Offset> pattern_of_row, std::span<const double> uniforms) {
  const auto beyond = [](auto number, std::size_t n) { return number < 0 || static_cast<std::size_t>(number) >= n; };
  if (pool.nnz == 0 || pool.n_features == 0 || pool.n_classes() == 0 || uniforms.size() != pattern_of_row.size() ||
      std::ranges::any_of(pool.features, [&](Index j) { return beyond(j, pool.n_features); }) ||
      std::ranges::any_of(pattern_of_row, [&](Offset p) { return beyond(p, pool.n_patterns()); })) {
    throw std::invalid_argument("the patterns, the weights and the rows do not fit each other");
  }
}

// Log-probabilities of all classes in a row of a pattern, and their entropy.
double log_softmax_of(const PatternPool& pool, std::size_t pattern, std::span<double> log_p) {
  const std::span<const Index> features = pool.features.subspan(pattern * pool.nnz, pool.nnz);
  for (std::size_t k = 0; k < log_p.size(); ++k) {
    const std::span<const double> w = pool.weights.subspan(k * pool.n_features, pool.n_features);
    double z = 0;
    for (const Index j : features) z += pool.value * w[static_cast<std::size_t>(j)];
    log_p[k] = z;
  }
  const double top = std::ranges::max(log_p);
  double sum = 0, entropy = 0;
  for (const double z : log_p) sum += std::exp(z - top);
  const double log_z = std::log(sum);
  for (double& z : log_p) {
    z = z - top - log_z;
    entropy -= std::exp(z) * z;
  }
  return entropy;
}

}  // namespace

SoftmaxDraws draw_from_softmax(const PatternPool& pool, std::span<const Offset> pattern_of_row,
                               std::span<const double> uniforms) {
  check(pool, pattern_of_row, uniforms);
  const std::size_t n_rows = pattern_of_row.size(), n_classes = pool.n_classes();
  std::vector<std::size_t> by_pattern(n_rows);
  std::iota(by_pattern.begin(), by_pattern.end(), std::size_t{0});
  std::ranges::stable_sort(by_pattern, {}, [&](std::size_t row) { return pattern_of_row[row]; });
  SoftmaxDraws draws{std::vector<Offset>(n_rows), std::vector<double>(n_rows), std::vector<double>(pool.n_patterns())};
  std::vector<double> log_p(n_classes), cumulative(n_classes);
  std::size_t at = 0;
  for (std::size_t pattern = 0; pattern < pool.n_patterns(); ++pattern) {
    poll(n_classes);
    draws.entropies[pattern] = log_softmax_of(pool, pattern, log_p);
    double sum = 0;
    for (std::size_t k = 0; k < n_classes; ++k) cumulative[k] = sum += std::exp(log_p[k]);
    for (; at < n_rows && pattern_of_row[by_pattern[at]] == static_cast<Offset>(pattern); ++at) {
      // Draws are scaled by the last sum, which rounding leaves beside 1, so that each lies below it.
      const auto found = std::upper_bound(cumulative.begin(), cumulative.end() - 1, uniforms[at] * cumulative.back());
      const auto k = static_cast<std::size_t>(found - cumulative.begin());
      draws.classes[by_pattern[at]] = static_cast<Offset>(k);
      draws.log_p[by_pattern[at]] = log_p[k];
    }
  }
  return draws;
}

}  // namespace manyclass
