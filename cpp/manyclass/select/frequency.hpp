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

struct Frequency {
  using Classes = ClassList;
  static constexpr bool repeats = true;

  std::shared_ptr<const AliasTable> table;
  Index size;  // m
  bool with_label = false;

  std::size_t capacity() const { return static_cast<std::size_t>(size); }
  float label_alpha(Index k) const { return static_cast<float>(1 / (size * table->probability(k))); }
  double inclusion(Index k) const { return -std::expm1(size * std::log1p(-table->probability(k))); }

  ClassList draw(Rng rng, Index, Index label, const DrawBuffers& out) const {
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
      out.alpha[n] = k == label && !with_label ? 0.0F : out.times[n] * label_alpha(k);
    }
    return {begin, n};
  }
};

}  // namespace manyclass
