// Weights and shares of classes, by the labels of points.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// How many points each class has, by their weights over `unit`; no weights: all are 1.
inline std::vector<double> weighted_counts(std::span<const Index> labels, std::size_t n_classes,
                                           std::span<const double> weights, double unit = 1) {
  if (!weights.empty() && weights.size() != labels.size())
    throw std::invalid_argument("the weights do not fit the labels");
  std::vector<double> counts(n_classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || static_cast<std::size_t>(labels[i]) >= n_classes) {
      throw std::invalid_argument("a label is out of range");
    }
    counts[static_cast<std::size_t>(labels[i])] += weights.empty() ? 1 : weights[i] / unit;
  }
  return counts;
}

// The weight of each class that gives all of those that have points the same weight together: n / (K n_k), where n
// counts all points, n_k those of the class, and K the classes that have some; 0 of others. Weights may be near the
// ends of double precision.
inline std::vector<double> balanced_weights(std::span<const Index> labels, std::size_t n_classes,
                                            std::span<const double> weights) {
  double largest = std::numeric_limits<double>::min();
  for (const double weight : weights) largest = std::max(largest, weight);
  std::vector<double> found = weighted_counts(labels, n_classes, weights, weights.empty() ? 1 : largest);
  double total = 0, n_present = 0;
  for (const double count : found) {
    total += count;
    n_present += count > 0 ? 1 : 0;
  }
  for (double& count : found) count = count > 0 ? total / (n_present * count) : 0;
  return found;
}

// The share of n rows that each class has, by the weights of the labels: above 0 and below 1, as a class without any
// counts as having half a row.
inline std::vector<double> class_shares(std::span<const Index> labels, std::size_t n_classes, std::size_t n_rows,
                                        std::span<const double> weights) {
  constexpr double fewest = 0.5;
  const auto n = static_cast<double>(n_rows);
  std::vector<double> found = weighted_counts(labels, n_classes, weights);
  for (double& count : found) count = std::max(fewest, std::min(count, n - fewest)) / n;
  return found;
}

}  // namespace manyclass
