// See block_sums.hpp.
#include "manyclass/exact/block_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

namespace {

constexpr double none = -std::numeric_limits<double>::infinity();

void check(const BlockSums& sums, std::size_t number, std::size_t n_rows) {
  if (number >= sums.n_blocks || sums.size() * sums.n_blocks != sums.log_sums.size() || sums.size() != n_rows) {
    throw std::invalid_argument("the log-sums do not fit the rows or the blocks");
  }
}

}  // namespace

void block_normalizers(const BlockSums& sums, std::size_t number, std::span<double> v, std::span<double> elsewhere) {
  check(sums, number, v.size());
  if (elsewhere.size() != v.size()) throw std::invalid_argument("there must be a number for each row");
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto own = sums.log_sums.subspan(i * sums.n_blocks, sums.n_blocks);
    LogSumExp others;
    for (std::size_t b = 0; b < own.size(); ++b) {
      if (b != number) others.add(own[b]);
    }
    elsewhere[i] = sums.n_blocks > 1 ? others.value() : none;
    v[i] = sums.n_blocks > 1 ? log_add(own[number], elsewhere[i]) : own[number];
  }
}

void take_normalizers(std::span<const double> before, std::span<const double> v, std::span<const double> elsewhere,
                      std::size_t number, const BlockSums& sums) {
  check(sums, number, v.size());
  if (before.size() != v.size() || elsewhere.size() != v.size()) {
    throw std::invalid_argument("there must be a number for each row");
  }
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (v[i] == before[i]) continue;
    const double left = sums.n_blocks > 1 ? std::log(-std::expm1(std::min(elsewhere[i] - v[i], 0.0))) : 0;
    sums.log_sums[i * sums.n_blocks + number] = v[i] + left;
  }
}

void best_over_blocks(const BestOfBlocks& found, std::size_t k, std::span<Index> best, std::span<double> log_p,
                      std::span<double> losses) {
  const std::size_t n = losses.size(), m = found.n_listed, n_blocks = n == 0 ? 0 : found.log_sums.size() / n;
  if (k > m || found.classes.size() != n * m || found.scores.size() != n * m || best.size() != n * k ||
      log_p.size() != n * k || found.log_sums.size() != n_blocks * n || found.of_labels.size() != n_blocks * n) {
    throw std::invalid_argument("what blocks have found does not fit the rows");
  }
  std::vector<std::size_t> order(m);
  for (std::size_t i = 0; i < n; ++i) {
    LogSumExp all;
    double of_label = none;
    for (std::size_t b = 0; b < n_blocks; ++b) {
      all.add(found.log_sums[b * n + i]);
      of_label = std::max(of_label, found.of_labels[b * n + i]);
    }
    const auto scores = found.scores.subspan(i * m, m);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    for (std::size_t j = 0; j < k; ++j) {
      best[i * k + j] = found.classes[i * m + order[j]];
      log_p[i * k + j] = scores[order[j]] - all.value();
    }
    losses[i] = all.value() - of_label;
  }
}

}  // namespace manyclass
