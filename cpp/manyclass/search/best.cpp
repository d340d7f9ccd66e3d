// The best rows of one query: see the header.
#include "manyclass/search/best.hpp"

#include <algorithm>
#include <functional>

namespace manyclass {

void Best::start(std::size_t k, float bar, std::span<const Index> excluded) {
  k_ = k;
  bar_ = bar;
  excluded_ = excluded;
  lower_.clear();
  kept_.clear();
  purge_at_ = 4 * k + 256;
}

void Best::offer(const GroupBounds& bounds, const std::array<Index, group_rows>& ids) {
  if (k_ == 1 && excluded_.empty()) {  // the best lower bound of the group first spares the others their way
    for (std::size_t r = 0; r < group_rows; ++r) bar_ = std::max(bar_, bounds.middle[r] - bounds.radius[r]);
  }
  for (std::size_t r = 0; r < group_rows; ++r) {
    const float upper = bounds.middle[r] + bounds.radius[r];
    if (!(upper >= bar_)) continue;
    if (!excluded_.empty() && std::ranges::binary_search(excluded_, ids[r])) continue;
    kept_.push_back({upper, ids[r]});
    if (k_ > 0) raise(bounds.middle[r] - bounds.radius[r]);
  }
  if (k_ > 0 && kept_.size() >= purge_at_) purge();
}

void Best::merge(const Best& other) {
  for (const float lower : other.lower_) raise(lower);
  bar_ = std::max(bar_, other.bar_);
  kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
}

std::span<const Scored> Best::finish(const RowsView& rows, DenseRow q, Isa isa) {
  const float threshold = bar_;
  purge();
  exact_scores(rows, q, isa, kept_);
  if (k_ == 0) {
    std::erase_if(kept_, [threshold](const Scored& row) { return !(row.score > threshold); });
    std::sort(kept_.begin(), kept_.end());
    return kept_;
  }
  const std::size_t k = std::min(k_, kept_.size());
  std::partial_sort(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(k), kept_.end());
  return {kept_.data(), k};
}

void Best::raise(float lower) {
  if (lower_.size() < k_) {
    lower_.push_back(lower);
    std::ranges::push_heap(lower_, std::greater<>());
  } else if (lower > lower_.front()) {
    std::ranges::pop_heap(lower_, std::greater<>());
    lower_.back() = lower;
    std::ranges::push_heap(lower_, std::greater<>());
  }
  if (lower_.size() == k_) bar_ = std::max(bar_, lower_.front());
}

void Best::purge() {
  std::erase_if(kept_, [bar = bar_](const Scored& row) { return row.score < bar; });
  purge_at_ = std::max(purge_at_, 2 * kept_.size());
}

}  // namespace manyclass
