// See support.hpp.
#include "manyclass/train/pairs/support.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace manyclass {

namespace {

// The rows that have each feature: the pattern of the transpose.
OwnedSupport rows_of_features(const CsrView& x) {
  OwnedSupport found;
  const auto n_features = static_cast<std::size_t>(x.n_cols);
  found.indptr.assign(n_features + 1, 0);
  for (const Index j : x.indices) ++found.indptr[static_cast<std::size_t>(j) + 1];
  for (std::size_t j = 0; j < n_features; ++j) found.indptr[j + 1] += found.indptr[j];
  std::vector<Offset> next(found.indptr.begin(), found.indptr.end() - 1);
  found.classes.resize(x.indices.size());
  for (Index i = 0; i < x.n_rows(); ++i) {
    for (const Index j : x.row(i).indices) {
      found.classes[static_cast<std::size_t>(next[static_cast<std::size_t>(j)]++)] = i;
    }
  }
  return found;
}

// Calls f(feature, classes, counts) for each feature that `wanted` is true of, with the sorted classes that rows with
// it have and how many rows have each, by class.
template <class Wanted, class F>
void for_each_feature(const CsrView& x, const Excluded& labels, Index n_classes, const Wanted& wanted, const F& f) {
  check(labels, static_cast<std::size_t>(x.n_rows()), static_cast<std::size_t>(n_classes), "labels");
  const OwnedSupport rows = rows_of_features(x);
  std::vector<Index> counts(static_cast<std::size_t>(n_classes)), seen;
  for (Index j = 0; j < x.n_cols; ++j) {
    if (!wanted(j)) continue;
    for (const Index i : Excluded{rows.indptr, rows.classes}.of(static_cast<std::size_t>(j))) {
      for (const Index k : labels.of(static_cast<std::size_t>(i))) {
        if (counts[static_cast<std::size_t>(k)]++ == 0) seen.push_back(k);
      }
    }
    std::ranges::sort(seen);
    f(j, seen, counts);
    for (const Index k : seen) counts[static_cast<std::size_t>(k)] = 0;
    seen.clear();
  }
}

}  // namespace

OwnedSupport support_of(const CsrView& x, const Excluded& labels, Index n_classes, Index min_count, Index few_classes) {
  if (min_count < 1) throw std::invalid_argument("min_count must be at least 1");
  OwnedSupport support;
  support.indptr = {0};
  for_each_feature(
      x, labels, n_classes, [](Index) { return true; },
      [&](Index, const std::vector<Index>& seen, const std::vector<Index>& counts) {
        const Index least = std::cmp_less_equal(seen.size(), few_classes) ? 1 : min_count;
        for (const Index k : seen) {
          if (counts[static_cast<std::size_t>(k)] >= least) support.classes.push_back(k);
        }
        support.indptr.push_back(static_cast<Offset>(support.classes.size()));
      });
  return support;
}

std::vector<std::int64_t> weights_met(const CsrView& x, const Excluded& labels, Index n_classes,
                                      std::span<const std::int64_t> times, std::span<const Index> least,
                                      Index few_classes) {
  if (times.size() != static_cast<std::size_t>(x.n_cols)) throw std::invalid_argument("times must have all features");
  std::vector<std::int64_t> found(least.size());
  for_each_feature(
      x, labels, n_classes, [&](Index j) { return times[static_cast<std::size_t>(j)] != 0; },
      [&](Index j, const std::vector<Index>& seen, const std::vector<Index>& counts) {
        for (std::size_t l = 0; l < least.size(); ++l) {
          const Index of_feature = std::cmp_less_equal(seen.size(), few_classes) ? 1 : least[l];
          const auto n =
              std::ranges::count_if(seen, [&](Index k) { return counts[static_cast<std::size_t>(k)] >= of_feature; });
          found[l] += times[static_cast<std::size_t>(j)] * n;
        }
      });
  return found;
}

}  // namespace manyclass
