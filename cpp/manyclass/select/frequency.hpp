// m draws with replacement, class k with probability q_k proportional to its number of points to a power.
//
// A class drawn c times counts once, with weight c / (m q_k). Where the label is drawn it counts nothing, so the
// estimate of the sum over wrong classes is unbiased.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

// Draws from a discrete distribution in constant time (Walker 1977; built as in Vose 1991).
class AliasTable {
 public:
  explicit AliasTable(std::vector<double> weights) : q_(std::move(weights)), accept_(q_.size()), alias_(q_.size()) {
    const double total = std::accumulate(q_.begin(), q_.end(), 0.0);
    for (double& q : q_) q /= total;
    std::vector<std::size_t> small, large;
    for (std::size_t k = 0; k < q_.size(); ++k) {
      accept_[k] = q_[k] * static_cast<double>(q_.size());
      (accept_[k] < 1 ? small : large).push_back(k);
    }
    while (!small.empty() && !large.empty()) {
      const std::size_t poor = small.back(), rich = large.back();
      small.pop_back();
      alias_[poor] = static_cast<Index>(rich);
      accept_[rich] -= 1 - accept_[poor];
      if (accept_[rich] < 1) {
        large.pop_back();
        small.push_back(rich);
      }
    }
    for (const std::size_t k : small) accept_[k] = 1;  // 1 but for rounding
    for (const std::size_t k : large) accept_[k] = 1;
  }

  std::size_t size() const { return q_.size(); }
  double probability(Index k) const { return q_[static_cast<std::size_t>(k)]; }
  double accept(std::size_t k) const { return accept_[k]; }
  Index alias(std::size_t k) const { return alias_[k]; }

  Index draw(Rng& rng) const {
    const std::uint32_t k = rng.below(static_cast<std::uint32_t>(q_.size()));
    return rng.uniform() < accept_[k] ? static_cast<Index>(k) : alias_[k];
  }

 private:
  std::vector<double> q_;
  std::vector<double> accept_;
  std::vector<Index> alias_;
};

// Number of points of each class: as given or, where that is nothing, as counted.
inline std::vector<double> counts_of(std::span<const double> given, std::span<const Index> labels, Index n_classes) {
  if (!given.empty()) return {given.begin(), given.end()};
  std::vector<double> counts(static_cast<std::size_t>(n_classes));
  for (const Index y : labels) ++counts[static_cast<std::size_t>(y)];
  return counts;
}

// Of runs of `width` classes, each with the sum of count ^ power over its classes. A class without points is not drawn,
// unless power is 0 and all weigh the same.
inline AliasTable frequency_table(std::span<const double> counts, double power, std::size_t width = 1) {
  std::vector<double> weights((counts.size() + width - 1) / width);
  for (std::size_t k = 0; k < counts.size(); ++k) {
    weights[k / width] += counts[k] > 0 || power == 0 ? std::pow(counts[k], power) : 0.0;
  }
  return AliasTable(std::move(weights));
}

inline constexpr Parameter frequency_power{
    .name = "power", .initial = 0.75, .sentence = "Exponent of a class's number of points in its probability."};

inline std::shared_ptr<const AliasTable> frequency_table(const SelectArguments& a, std::size_t width) {
  return std::make_shared<const AliasTable>(
      frequency_table(counts_of(a.counts, a.labels, a.n_classes), value_of(frequency_power, a.options), width));
}

struct Frequency {
  static constexpr Facts facts{
      .name = "frequency",
      .sentence = "Draws with replacement, a class in proportion to its number of points to a power.",
      .flags = {flag::label, flag::counts},
      .parameters = {frequency_power},
  };
  using Classes = ClassList;
  static constexpr bool repeats = true;

  std::shared_ptr<const AliasTable> table;
  Index size;  // m
  bool with_label = false;

  static Frequency make(const SelectArguments& a) { return {frequency_table(a, 1), a.n_negatives, a.with_label}; }

  std::size_t capacity() const { return static_cast<std::size_t>(size); }
  float label_alpha(Index k) const { return static_cast<float>(1 / (size * table->probability(k))); }
  double inclusion(Index k) const { return -std::expm1(size * std::log1p(-table->probability(k))); }

  std::size_t n_random(ClassList classes) const { return classes.size(); }

  ClassList draw(Rng rng, Index, std::span<const Index> labels, const DrawBuffers& out) const {
    Index* const begin = out.list.data();
    for (Index j = 0; j < size; ++j) begin[j] = table->draw(rng);
    std::sort(begin, begin + size);
    std::size_t n = 0;
    for (Index j = 0; j < size; ++n) {
      const Index k = begin[j];
      Index times = 0;
      for (; j < size && begin[j] == k; ++j) ++times;
      begin[n] = k;
      out.times[n] = static_cast<float>(times);
      const bool counts = with_label || !std::binary_search(labels.begin(), labels.end(), k);
      out.alpha[n] = counts ? out.times[n] * label_alpha(k) : 0.0F;
    }
    return {begin, n};
  }
};

static_assert(Selection<Frequency>, "see select/draw.hpp");

}  // namespace manyclass
