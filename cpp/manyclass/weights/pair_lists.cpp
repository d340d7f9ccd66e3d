// See pair_lists.hpp.
#include "manyclass/weights/pair_lists.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "manyclass/core/interrupt.hpp"

namespace manyclass {

namespace {

std::size_t n_lists(const Excluded& lists) { return lists.indptr.empty() ? 0 : lists.indptr.size() - 1; }

// Appends the union of two sorted lists of classes and the places in it of both.
void append_union(std::span<const Index> own, std::span<const Index> position, std::span<const Index> other,
                  PairUnion& made) {
  std::size_t a = 0, b = 0;
  while (a < own.size() || b < other.size()) {
    const bool only_other = a == own.size();
    const Index ours = only_other ? 0 : position[static_cast<std::size_t>(own[a])];
    const bool is_own = !only_other && (b == other.size() || ours <= other[b]);
    const bool is_other = b < other.size() && (only_other || other[b] <= ours);
    const auto place = static_cast<Offset>(made.classes.size());
    made.classes.push_back(is_own ? ours : other[b]);
    if (is_own) {
      made.own.push_back(place);
      ++a;
    }
    if (is_other) {
      made.other.push_back(place);
      ++b;
    }
  }
  made.indptr.push_back(static_cast<Offset>(made.classes.size()));
}

// The numbers of a list, or none for 0.
void check_numbers(std::span<const float> numbers, std::span<const Offset> places) {
  if (!numbers.empty() && numbers.size() != places.size()) {
    throw std::invalid_argument("there must be one number for each pair");
  }
}

}  // namespace

void PairUnion::spread(std::span<const float> numbers, std::span<float> out) const {
  check_numbers(numbers, own);
  std::ranges::fill(out, 0.0F);
  for (std::size_t p = 0; p < numbers.size(); ++p) out[static_cast<std::size_t>(own[p])] = numbers[p];
}

void PairUnion::sum(float a, std::span<const float> x, float b, std::span<const float> y, std::span<float> out) const {
  check_numbers(y, other);
  spread(x, out);
  for (float& number : out) number *= a;
  for (std::size_t p = 0; p < y.size(); ++p) out[static_cast<std::size_t>(other[p])] += b * y[p];
}

PairUnion union_of(const Excluded& own, std::span<const Index> position, const Excluded& other, std::size_t n_classes) {
  const std::size_t n_features = n_lists(own);
  check(own, n_features, position.size(), "classes of pairs");
  check(other, n_features, n_classes, "classes of other pairs");
  if (!position.empty() && (position.front() < 0 || static_cast<std::size_t>(position.back()) >= n_classes ||
                            std::ranges::adjacent_find(position, std::ranges::greater_equal{}) != position.end())) {
    throw std::invalid_argument("the positions of classes must increase and be in range");
  }
  PairUnion made;
  made.indptr.reserve(n_features + 1);
  made.indptr.push_back(0);
  made.classes.reserve(std::max(own.ids.size(), other.ids.size()));
  made.own.reserve(own.ids.size());
  made.other.reserve(other.ids.size());
  for (std::size_t j = 0; j < n_features; ++j) {
    poll(own.of(j).size() + other.of(j).size());
    append_union(own.of(j), position, other.of(j), made);
  }
  return made;
}

void count_pairs(const CsrView& x, const Excluded& labels, std::span<const double> row_weights, const Excluded& pairs,
                 std::size_t n_classes, std::span<float> counts, std::span<float> totals) {
  const auto n_rows = static_cast<std::size_t>(x.n_rows()), n_features = static_cast<std::size_t>(x.n_cols);
  check(labels, n_rows, n_classes, "labels");
  check(pairs, n_features, n_classes, "classes of pairs");
  if (counts.size() != pairs.ids.size() || totals.size() != n_features ||
      (!row_weights.empty() && row_weights.size() != n_rows)) {
    throw std::invalid_argument("the counts do not fit the pairs, the features or the rows");
  }
  std::vector<double> of_pairs(counts.size()), of_features(n_features);
  for (std::size_t i = 0; i < n_rows; ++i) {
    const SparseRow row = x.row(static_cast<Index>(i));
    const std::span<const Index> of_row = labels.of(i);
    const double weight = row_weights.empty() ? 1 : row_weights[i];
    poll(row.indices.size());
    for (std::size_t s = 0; s < row.indices.size(); ++s) {
      if (row.values[s] == 0) continue;
      const auto j = static_cast<std::size_t>(row.indices[s]);
      of_features[j] += weight * static_cast<double>(of_row.size());
      const auto first = static_cast<std::size_t>(pairs.indptr[j]);
      const std::span<const Index> classes = pairs.of(j);
      for (const Index k : of_row) {
        const auto found = std::ranges::lower_bound(classes, k);
        if (found == classes.end() || *found != k) continue;
        of_pairs[first + static_cast<std::size_t>(found - classes.begin())] += weight;
      }
    }
  }
  const auto add = [](std::span<float> to, const std::vector<double>& more) {
    for (std::size_t n = 0; n < to.size(); ++n) to[n] = static_cast<float>(static_cast<double>(to[n]) + more[n]);
  };
  add(counts, of_pairs);
  add(totals, of_features);
}

}  // namespace manyclass
