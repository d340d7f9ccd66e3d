// The best rows of one query: see the header.
#include "manyclass/search/best.hpp"

#include <algorithm>

namespace manyclass {

namespace {

// Rows that come between two raises of the bar, beside k more: raising costs as much as looking at a few dozen rows.
constexpr std::size_t patience = 16;

}  // namespace

void Best::start(std::size_t k, float bar, std::span<const Index> excluded, bool is_exact) {
  k_ = k;
  is_exact_ = is_exact;
  bar_ = bar;
  excluded_ = excluded;
  kept_.clear();
  raise_at_ = k + (is_exact ? 0 : patience);
}

void Best::offer(const GroupBounds& bounds, const std::array<Index, group_rows>& ids) {
  if (k_ == 1 && excluded_.empty()) {
    for (std::size_t r = 0; r < group_rows; ++r) bar_ = std::max(bar_, bounds.middle[r] - bounds.radius[r]);
  }
  for (std::size_t r = 0; r < group_rows; ++r) {
    const float upper = bounds.middle[r] + bounds.radius[r];
    if (!(upper >= bar_)) continue;
    if (!excluded_.empty() && std::ranges::binary_search(excluded_, ids[r])) continue;
    kept_.push_back({bounds.middle[r] - bounds.radius[r], upper, ids[r]});
  }
  if (kept_.size() >= raise_at_) raise_bar();
}

void Best::merge(const Best& other) {
  bar_ = std::max(bar_, other.bar_);
  kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
}

std::span<const Scored> Best::finish(const RowsView& rows, DenseRow q, Isa isa) {
  raise_bar();
  scored_.clear();
  if (k_ == 0) {
    score(kept_, rows, q, isa);
    std::erase_if(scored_, [threshold = bar_](const Scored& row) { return !(row.score > threshold); });
    std::sort(scored_.begin(), scored_.end());
    return scored_;
  }
  // The k of largest upper bounds first: their worst score is a higher bar for the others than a lower bound is.
  const std::size_t k = std::min(k_, kept_.size());
  const auto others = kept_.begin() + static_cast<std::ptrdiff_t>(k);
  if (others != kept_.end()) {
    std::nth_element(kept_.begin(), others, kept_.end(),
                     [](const Kept& a, const Kept& b) { return a.upper > b.upper; });
  }
  score(std::span(kept_).first(k), rows, q, isa);
  if (others != kept_.end()) {
    const float worst = std::ranges::min(scored_, {}, &Scored::score).score;
    kept_.erase(kept_.begin(), others);
    std::erase_if(kept_, [worst](const Kept& row) { return row.upper < worst; });
    score(kept_, rows, q, isa);
  }
  std::partial_sort(scored_.begin(), scored_.begin() + static_cast<std::ptrdiff_t>(k), scored_.end());
  return {scored_.data(), k};
}

void Best::score(std::span<const Kept> some, const RowsView& rows, DenseRow q, Isa isa) {
  const std::size_t before = scored_.size();
  for (const Kept& row : some) scored_.push_back({row.upper, row.id});
  if (rows.data != nullptr || rows.halves != nullptr) exact_scores(rows, q, isa, std::span(scored_).subspan(before));
}

void Best::raise_bar() {
  if (k_ > 0 && kept_.size() >= k_) {
    const auto kth = kept_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::nth_element(kept_.begin(), kth, kept_.end(), [](const Kept& a, const Kept& b) { return a.lower > b.lower; });
    bar_ = std::max(bar_, kth->lower);
    std::erase_if(kept_, [bar = bar_](const Kept& row) { return row.upper < bar; });
  }
  // Scores without a radius are dear, and few are kept: the bar follows them closely.
  raise_at_ = is_exact_ ? kept_.size() + std::max<std::size_t>(4, kept_.size() / 4) : 2 * kept_.size() + patience;
}

}  // namespace manyclass
