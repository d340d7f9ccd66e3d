// Sets of labels, and ancestors: see the header.
#include "manyclass/evaluate/label_sets.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace manyclass {

double SetRule::score(double before, double rank) const {
  return penalty > 0 ? before + penalty * std::max(rank - static_cast<double>(free_rank), 0.0) : before;
}

std::vector<double> stands_of(std::span<const double> log_p, std::size_t n_classes, std::span<const Index> labels) {
  if (log_p.size() != n_classes * labels.size()) throw std::invalid_argument("there must be one label for each row");
  std::vector<double> found;
  found.reserve(2 * labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const double> row = log_p.subspan(i * n_classes, n_classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    if (label >= n_classes) throw std::invalid_argument("a label is out of range");
    const double own = std::exp(row[label]);
    double before = 0, rank = 1;
    for (std::size_t k = 0; k < n_classes; ++k) {
      const double p = std::exp(row[k]);
      if (p > own || (p == own && k < label)) before += p, rank += 1;
    }
    found.insert(found.end(), {before, rank});
  }
  return found;
}

std::vector<std::ptrdiff_t> set_sizes(std::span<const float> log_p, std::size_t k, const SetRule& rule,
                                      bool all_classes) {
  std::vector<std::ptrdiff_t> found;
  for (std::size_t first = 0; first < log_p.size(); first += k) {
    double before = 0;
    std::size_t n = 0;
    while (n < k && rule.score(before, static_cast<double>(n + 1)) <= rule.threshold) {
      before += std::exp(static_cast<double>(log_p[first + n++]));
    }
    const auto size = static_cast<std::ptrdiff_t>(std::max(n, std::size_t{1}));
    found.push_back(n == k && !all_classes ? -size : size);
  }
  return found;
}

double conformal_threshold(std::span<const double> stands, const SetRule& rule, double coverage) {
  std::vector<double> scores;
  for (std::size_t i = 0; i + 1 < stands.size(); i += 2) scores.push_back(rule.score(stands[i], stands[i + 1]));
  const double at = std::ceil(static_cast<double>(scores.size() + 1) * coverage);
  if (at > static_cast<double>(scores.size())) return std::numeric_limits<double>::infinity();
  const auto place = scores.begin() + static_cast<std::ptrdiff_t>(at) - 1;
  std::nth_element(scores.begin(), place, scores.end());
  return *place;
}

LabelsAbove labels_above(std::span<const float> scores, std::size_t n_classes, float limit, bool by_softmax,
                         bool with_best) {
  LabelsAbove found;
  for (std::size_t first = 0; first < scores.size(); first += n_classes) {
    const std::span<const float> row = scores.subspan(first, n_classes);
    const auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    float top = 0, log_sum = 0;
    if (by_softmax) {
      double sum = 0;
      top = row[best];
      for (const float z : row) sum += static_cast<double>(std::exp(z - top));
      log_sum = static_cast<float>(std::log(sum));
    }
    for (std::size_t k = 0; k < n_classes; ++k) {
      const bool above = (by_softmax ? (row[k] - top) - log_sum : row[k]) > limit;
      if (above || (with_best && k == best)) found.classes.push_back(static_cast<Index>(k));
    }
    found.indptr.push_back(static_cast<Offset>(found.classes.size()));
  }
  return found;
}

BestClasses best_classes(std::span<const double> log_p, std::size_t n_classes, std::size_t k) {
  if (k > n_classes) throw std::invalid_argument("there are fewer classes than are asked for");
  BestClasses found;
  std::vector<Index> order(n_classes);
  constexpr auto most = static_cast<double>(std::numeric_limits<float>::max());
  for (std::size_t first = 0; first < log_p.size(); first += n_classes) {
    const auto better = [&](Index a, Index b) {
      const double of_a = log_p[first + static_cast<std::size_t>(a)], of_b = log_p[first + static_cast<std::size_t>(b)];
      return of_a > of_b || (of_a == of_b && a < b);
    };
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), better);
    for (std::size_t c = 0; c < k; ++c) {
      found.classes.push_back(order[c]);
      found.log_p.push_back(static_cast<float>(std::max(log_p[first + static_cast<std::size_t>(order[c])], -most)));
    }
  }
  return found;
}

Hierarchy::Hierarchy(std::vector<Index> parents, std::size_t n_classes)
    : n_classes_(n_classes), parents_(std::move(parents)), depth_(parents_.size()) {
  for (const Index parent : parents_) {
    if (parent < -1 || parent >= static_cast<Index>(parents_.size()) || n_classes > parents_.size()) {
      throw std::invalid_argument("the parents do not fit the nodes");
    }
  }
  for (std::size_t at = 0; at < parents_.size(); ++at) {
    std::vector<Index> path;
    for (auto node = static_cast<Index>(at); node >= 0; node = parents_[static_cast<std::size_t>(node)]) {
      if (std::find(path.begin(), path.end(), node) != path.end()) {
        circle_ = std::move(path);
        return;
      }
      path.push_back(node);
    }
    depth_[at] = path.size();
  }
}

std::pair<std::vector<Index>, std::vector<double>> Hierarchy::deepest(std::span<const double> p, double least) const {
  if (!circle_.empty() || p.size() % n_classes_ != 0) throw std::invalid_argument("the probabilities do not fit");
  std::vector<Index> nodes;
  std::vector<double> probabilities, sums(parents_.size());
  for (std::size_t first = 0; first < p.size(); first += n_classes_) {
    std::ranges::fill(sums, 0.0);
    for (std::size_t k = 0; k < n_classes_; ++k) {
      for (auto node = static_cast<Index>(k); node >= 0; node = parents_[static_cast<std::size_t>(node)]) {
        sums[static_cast<std::size_t>(node)] += p[first + k];
      }
    }
    Index best = -1;
    double key = -1;
    for (std::size_t node = 0; node < sums.size(); ++node) {
      // Sums of classes may be above 1 by rounding, and a node is as sure as the only one below it.
      sums[node] = sums[node] >= least ? std::min(sums[node], 1.0) : -1;
      const double own = sums[node] < 0 ? -1 : static_cast<double>(depth_[node]) + sums[node] / 2;
      if (own > key) best = static_cast<Index>(node), key = own;
    }
    nodes.push_back(best);
    probabilities.push_back(best < 0 ? 1 : sums[static_cast<std::size_t>(best)]);
  }
  return {nodes, probabilities};
}

}  // namespace manyclass
