// See trials.hpp.
#include "manyclass/train/common/trials.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace manyclass {

namespace {

// How many points have each label.
std::vector<std::size_t> counts_of(std::span<const Index> labels) {
  std::vector<std::size_t> counts;
  for (const Index label : labels) {
    if (label < 0) throw std::invalid_argument("a label is out of range");
    const auto k = static_cast<std::size_t>(label);
    if (k >= counts.size()) counts.resize(k + 1);
    ++counts[k];
  }
  return counts;
}

void check_order(std::span<const std::int64_t> order, std::size_t n) {
  const auto fits = [n](std::int64_t at) { return at >= 0 && static_cast<std::size_t>(at) < n; };
  if (order.size() != n || !std::ranges::all_of(order, fits)) {
    throw std::invalid_argument("the order does not have each of them");
  }
}

}  // namespace

StepWalk::StepWalk(std::vector<int> first, int lowest, int highest)
    : first_(std::move(first)), lowest_(lowest), highest_(highest) {
  if (first_.empty()) throw std::invalid_argument("there must be an exponent to try first");
}

int StepWalk::best() const {
  if (losses_.empty()) throw std::invalid_argument("nothing has been tried");
  return tried_[static_cast<std::size_t>(std::ranges::min_element(losses_) - losses_.begin())];
}

std::optional<int> StepWalk::next() const {
  if (tried_.size() < first_.size()) return first_[tried_.size()];
  const auto [low, high] = std::ranges::minmax(tried_);
  const int at = best();
  // Where all diverged it is a smaller one that is wanted.
  const bool down = at == low || !std::isfinite(*std::ranges::min_element(losses_));
  if (!down && at != high) return std::nullopt;
  const int further = down ? low - 1 : high + 1;
  if (further < lowest_ || further > highest_) return std::nullopt;
  return further;
}

void StepWalk::tell(double loss) {
  const std::optional<int> exponent = next();
  if (!exponent) throw std::invalid_argument("the walk has ended");
  tried_.push_back(*exponent);
  losses_.push_back(loss);
}

std::optional<std::vector<std::int64_t>> rows_of_whole_classes(std::span<const Index> labels,
                                                               std::span<const std::int64_t> order, std::size_t n_rows,
                                                               std::size_t fewest) {
  const std::vector<std::size_t> counts = counts_of(labels);
  check_order(order, counts.size());
  std::vector<std::int64_t> rows(labels.size());
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  std::size_t n_drawn = 0, n = 0;
  while (n_drawn < counts.size() && (n_drawn == 0 || n < n_rows)) {
    n += counts[static_cast<std::size_t>(order[n_drawn])];
    ++n_drawn;
  }
  if (n < n_rows || n_drawn == counts.size()) return rows;
  if (n_drawn < fewest) return std::nullopt;
  std::vector<bool> drawn(counts.size());
  for (std::size_t c = 0; c < n_drawn; ++c) drawn[static_cast<std::size_t>(order[c])] = true;
  std::erase_if(rows,
                [&](std::int64_t i) { return !drawn[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])]; });
  return rows;
}

std::vector<std::int64_t> folds_of(std::span<const Index> labels, std::span<const std::int64_t> order,
                                   std::size_t n_folds) {
  const std::vector<std::size_t> counts = counts_of(labels);
  check_order(order, labels.size());
  if (n_folds == 0) throw std::invalid_argument("there must be a fold");
  std::vector<std::size_t> next(counts.size());  // the place of a class's next point where classes stand one by one
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), std::size_t{0});
  std::vector<std::int64_t> folds(labels.size());
  for (const std::int64_t at : order) {
    const auto i = static_cast<std::size_t>(at), k = static_cast<std::size_t>(labels[i]);
    folds[i] = counts[k] == 1 ? -1 : static_cast<std::int64_t>(next[k] % n_folds);
    ++next[k];
  }
  return folds;
}

std::vector<bool> spare_points(const Excluded& labels, std::span<const std::int64_t> order, std::size_t n) {
  const std::size_t n_points = labels.indptr.empty() ? 0 : labels.indptr.size() - 1;
  check_order(order, n_points);
  std::vector<bool> kept, held(n_points);
  for (const std::int64_t at : order) {
    const std::span<const Index> own = labels.of(static_cast<std::size_t>(at));
    bool is_first = false;  // of a label, as drawn
    for (const Index label : own) {
      const auto k = static_cast<std::size_t>(label);
      if (k >= kept.size()) kept.resize(k + 1);
      is_first = is_first || !kept[k];
      kept[k] = true;
    }
    if (is_first || n == 0) continue;
    held[static_cast<std::size_t>(at)] = true;
    --n;
  }
  return held;
}

std::size_t points_of_batch(std::span<const Index> labels, std::size_t n_classes, bool every_class) {
  constexpr std::size_t classes_per_point = 64, most = 64, most_of_every_class = 4;
  if (n_classes < 16 * classes_per_point || labels.empty()) return 1;
  const std::size_t by_label = labels.size() / std::ranges::max(counts_of(labels));
  return std::max(std::size_t{1},
                  std::min({every_class ? most_of_every_class : most, n_classes / classes_per_point, by_label}));
}

}  // namespace manyclass
