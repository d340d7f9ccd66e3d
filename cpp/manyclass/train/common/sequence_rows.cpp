// See sequence_rows.hpp.
#include "manyclass/train/common/sequence_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "manyclass/core/rng.hpp"

namespace manyclass {

namespace {

// Rows by a number of 64 bits that stands for a set of items: two sets share one with a chance of 2^-64.
class RowsBySet {
 public:
  explicit RowsBySet(std::span<const std::uint64_t> sets) : sets_(sets), order_(sets.size()) {
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<Index>(i);
    std::ranges::sort(order_, {}, [this](Index i) { return std::pair(set_of(i), i); });
  }

  std::span<const Index> of(std::uint64_t set) const {
    const auto found = std::ranges::equal_range(order_, set, {}, [this](Index i) { return set_of(i); });
    return {found.begin(), found.end()};
  }

 private:
  std::uint64_t set_of(Index i) const { return sets_[static_cast<std::size_t>(i)]; }

  std::span<const std::uint64_t> sets_;
  std::vector<Index> order_;
};

std::uint64_t number_of(Index feature) { return Rng({}, static_cast<std::uint64_t>(feature)).next(); }

}  // namespace

void check(const Prefixes& prefixes) {
  const auto n_features = static_cast<Offset>(prefixes.features.size());
  if (prefixes.indptr.size() != prefixes.size() + 1 || prefixes.indptr.front() != 0 ||
      prefixes.indptr.back() != n_features || !std::ranges::is_sorted(prefixes.indptr)) {
    throw std::invalid_argument("indptr does not fit the features and labels of the rows");
  }
}

SequenceRows sequence_rows(const Prefixes& prefixes, std::span<const Index> rows, std::size_t most) {
  check(prefixes);
  const std::size_t n = prefixes.size();
  std::vector<std::uint64_t> before(n), after(n);  // the items of a row, and these with its label
  std::size_t n_first = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto begin = static_cast<std::size_t>(prefixes.indptr[i]),
               end = static_cast<std::size_t>(prefixes.indptr[i + 1]);
    const auto own = prefixes.features.subspan(begin, end - begin);
    for (const Index feature : own) before[i] += number_of(feature);
    const bool is_new = prefixes.next[i] >= 0 && std::ranges::find(own, prefixes.next[i]) == own.end();
    after[i] = is_new ? before[i] + number_of(prefixes.next[i]) : before[i];
    n_first += own.size() == 1 ? 1 : 0;
  }
  const RowsBySet by_before(before), by_after(after);
  std::size_t n_following = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool several = prefixes.indptr[i + 1] - prefixes.indptr[i] > 1;
    // A row whose label is among its items is found by its own set, and comes after none by that.
    n_following += several && std::ranges::any_of(by_after.of(before[i]), [&](Index j) {
                     return after[static_cast<std::size_t>(j)] != before[static_cast<std::size_t>(j)];
                   });
  }
  std::vector<char> taken(n);
  std::vector<Index> together;
  const auto take = [&](Index i) {
    if (taken[static_cast<std::size_t>(i)]) return;
    taken[static_cast<std::size_t>(i)] = 1;
    together.push_back(i);
  };
  for (const Index i : rows) {
    if (i < 0 || static_cast<std::size_t>(i) >= n) throw std::invalid_argument("a row is out of range");
    take(i);
  }
  for (std::size_t at = 0; at < together.size(); ++at) {
    const auto i = static_cast<std::size_t>(together[at]);
    for (const auto found : {by_before.of(after[i]), by_after.of(before[i])}) {
      if (found.size() <= most) std::ranges::for_each(found, take);
    }
  }
  std::ranges::sort(together);
  const double several = static_cast<double>(n - n_first);
  return {n_first > 0 ? static_cast<double>(n) / static_cast<double>(n_first) : std::numeric_limits<double>::infinity(),
          several > 0 ? static_cast<double>(n_following) / several : 0.0, std::move(together)};
}

}  // namespace manyclass
