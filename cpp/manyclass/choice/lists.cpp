// See lists.hpp.
#include "manyclass/choice/lists.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace manyclass {

namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(what);
}

void check_lists(const ListedPairs& pairs) {
  const std::size_t n = pairs.n_rows;
  require(pairs.indptr.size() == n + 1 && pairs.indptr[0] == 0 && std::ranges::is_sorted(pairs.indptr) &&
              pairs.indptr[n] == static_cast<Offset>(pairs.alternatives.size()),
          "available has an indptr that does not begin n_rows = " + std::to_string(n) + " lists");
  const auto k = static_cast<Index>(pairs.n_alternatives);
  require(std::ranges::all_of(pairs.alternatives, [k](Index id) { return id >= 0 && id < k; }),
          "available has positions outside [0, " + std::to_string(k) + ")");
  for (std::size_t i = 0; i < n; ++i) {
    require(pairs.indptr[i] < pairs.indptr[i + 1], "row " + std::to_string(i) + " has no alternative to choose from");
  }
}

void check_values(const ListedPairs& pairs, const PairValues& given) {
  if (given.by_rows()) {
    const auto k = static_cast<Index>(pairs.n_alternatives);
    require(given.indptr.size() == pairs.n_rows + 1 && given.indptr[0] >= 0 && std::ranges::is_sorted(given.indptr) &&
                given.indptr[pairs.n_rows] <= static_cast<Offset>(given.values.size()) &&
                given.values.size() == given.alternatives.size() &&
                std::ranges::all_of(given.alternatives, [k](Index id) { return id >= 0 && id < k; }),
            given.name + " is no matrix of rows and alternatives");
  } else {
    const std::size_t in_table = pairs.n_rows * pairs.n_alternatives;
    require(
        (pairs.only || !given.listed) && given.values.size() == (given.listed ? pairs.alternatives.size() : in_table),
        given.name + " does not have a number for each pair");
  }
}

// What rows list: what is given, or the union of what the values have.
void list_alternatives(const ListedPairs& pairs, ChoiceLists& lists, std::vector<std::size_t>& order) {
  lists.indptr.assign(pairs.n_rows + 1, 0);
  if (pairs.only) {
    lists.indptr.assign(pairs.indptr.begin(), pairs.indptr.end());
    order.resize(pairs.alternatives.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = 0; i < pairs.n_rows; ++i) {
      std::sort(order.begin() + lists.indptr[i], order.begin() + lists.indptr[i + 1],
                [&](std::size_t a, std::size_t b) { return pairs.alternatives[a] < pairs.alternatives[b]; });
    }
    for (const std::size_t at : order) lists.alternatives.push_back(pairs.alternatives[at]);
  } else {
    std::vector<const PairValues*> all;
    for (const PairValues& one : pairs.features) all.push_back(&one);
    for (const auto* one : {&pairs.offset, &pairs.unavailable}) {
      if (one->has_value()) all.push_back(&**one);
    }
    for (std::size_t i = 0; i < pairs.n_rows; ++i) {
      const auto begin = static_cast<Offset>(lists.alternatives.size());
      for (const PairValues* one : all) {
        lists.alternatives.insert(lists.alternatives.end(), one->alternatives.begin() + one->indptr[i],
                                  one->alternatives.begin() + one->indptr[i + 1]);
      }
      std::sort(lists.alternatives.begin() + begin, lists.alternatives.end());
      const auto last = std::unique(lists.alternatives.begin() + begin, lists.alternatives.end());
      lists.alternatives.erase(last, lists.alternatives.end());
      lists.indptr[i + 1] = static_cast<Offset>(lists.alternatives.size());
    }
  }
  for (std::size_t i = 0; i < pairs.n_rows; ++i) {
    for (std::size_t at = lists.begin(i) + 1; at < lists.end(i); ++at) {
      require(lists.alternatives[at] != lists.alternatives[at - 1], "a row lists an alternative twice");
    }
  }
}

// Calls take(at, number) with the number of each listed pair that is not 0.
template <class Take>
void look_up(const ListedPairs& pairs, const ChoiceLists& lists, std::span<const std::size_t> order,
             const PairValues& given, const Take& take) {
  const std::size_t k = pairs.n_alternatives;
  std::vector<double> of_row(given.by_rows() ? k : 0);
  for (std::size_t i = 0; i < pairs.n_rows; ++i) {
    const auto first = given.by_rows() ? static_cast<std::size_t>(given.indptr[i]) : 0;
    const auto last = given.by_rows() ? static_cast<std::size_t>(given.indptr[i + 1]) : 0;
    for (std::size_t at = first; at < last; ++at) {
      of_row[static_cast<std::size_t>(given.alternatives[at])] += given.values[at];
    }
    for (std::size_t at = lists.begin(i); at < lists.end(i); ++at) {
      const auto id = static_cast<std::size_t>(lists.alternatives[at]);
      const double number = given.by_rows() ? of_row[id] : given.values[given.listed ? order[at] : i * k + id];
      require(std::isfinite(number), given.name + " has numbers that are not finite");
      if (number != 0) take(at, number);
    }
    for (std::size_t at = first; at < last; ++at) of_row[static_cast<std::size_t>(given.alternatives[at])] = 0;
  }
}

}  // namespace

ChoiceLists choice_lists(const ListedPairs& pairs) {
  if (pairs.only) check_lists(pairs);
  for (const PairValues& one : pairs.features) check_values(pairs, one);
  for (const auto* one : {&pairs.offset, &pairs.unavailable}) {
    if (one->has_value()) check_values(pairs, **one);
  }
  ChoiceLists lists;
  std::vector<std::size_t> order;
  list_alternatives(pairs, lists, order);
  lists.only = pairs.only;
  const std::size_t n = lists.alternatives.size(), r = lists.n_features = pairs.features.size();
  lists.features.assign(n * r, 0.0);
  lists.offsets.assign(n, 0.0);
  for (std::size_t j = 0; j < r; ++j) {
    look_up(pairs, lists, order, pairs.features[j],
            [&](std::size_t at, double number) { lists.features[at * r + j] = number; });
  }
  if (pairs.offset) {
    look_up(pairs, lists, order, *pairs.offset, [&](std::size_t at, double number) { lists.offsets[at] = number; });
  }
  if (pairs.unavailable) {
    constexpr double never = -std::numeric_limits<double>::infinity();
    look_up(pairs, lists, order, *pairs.unavailable, [&](std::size_t at, double) { lists.offsets[at] = never; });
  }
  return lists;
}

ChoiceLists lists_of_rows(const ChoiceLists& lists, std::span<const Offset> rows) {
  const std::size_t r = lists.n_features;
  ChoiceLists found;
  found.n_features = r;
  found.only = lists.only;
  found.indptr.assign(1, 0);
  for (const Offset row : rows) {
    require(row >= 0 && static_cast<std::size_t>(row) < lists.n_rows(), "there is no row " + std::to_string(row));
    const auto i = static_cast<std::size_t>(row);
    const auto begin = lists.indptr[i], end = lists.indptr[i + 1], wide = static_cast<Offset>(r);
    found.alternatives.insert(found.alternatives.end(), lists.alternatives.begin() + begin,
                              lists.alternatives.begin() + end);
    found.features.insert(found.features.end(), lists.features.begin() + begin * wide,
                          lists.features.begin() + end * wide);
    found.offsets.insert(found.offsets.end(), lists.offsets.begin() + begin, lists.offsets.begin() + end);
    if (!lists.log_weights.empty()) {
      found.log_weights.insert(found.log_weights.end(), lists.log_weights.begin() + begin,
                               lists.log_weights.begin() + end);
    }
    found.indptr.push_back(static_cast<Offset>(found.alternatives.size()));
  }
  return found;
}

ChoiceLists filled_lists(const ChoiceLists& lists, std::size_t n_alternatives) {
  if (lists.only) return lists;
  const std::size_t n = lists.n_rows(), k = n_alternatives, r = lists.n_features;
  ChoiceLists found;
  found.n_features = r;
  found.only = true;
  found.features.assign(n * k * r, 0.0);
  found.offsets.assign(n * k, 0.0);
  found.alternatives.resize(n * k);
  found.indptr.assign(1, 0);
  for (std::size_t i = 0; i < n; ++i) {
    std::iota(found.alternatives.begin() + static_cast<Offset>(i * k),
              found.alternatives.begin() + static_cast<Offset>((i + 1) * k), Index{0});
    found.indptr.push_back(static_cast<Offset>((i + 1) * k));
    for (std::size_t at = lists.begin(i); at < lists.end(i); ++at) {
      const std::size_t to = i * k + static_cast<std::size_t>(lists.alternatives[at]);
      found.offsets[to] = lists.offsets[at];
      std::copy_n(lists.features.data() + at * r, r, found.features.data() + to * r);
    }
  }
  return found;
}

std::vector<Offset> rows_of_entries(const ChoiceLists& lists) {
  std::vector<Offset> rows(lists.alternatives.size());
  for (std::size_t i = 0; i < lists.n_rows(); ++i) {
    std::fill(rows.begin() + lists.indptr[i], rows.begin() + lists.indptr[i + 1], static_cast<Offset>(i));
  }
  return rows;
}

std::optional<std::vector<double>> numbers_of_groups(std::span<const double> numbers, std::span<const Offset> groups,
                                                     std::size_t n_groups) {
  require(numbers.size() == groups.size(), "numbers and groups differ in length");
  std::vector<double> found(n_groups, 0.0);
  std::vector<bool> seen(n_groups, false);
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    require(groups[at] >= 0 && static_cast<std::size_t>(groups[at]) < n_groups, "a group is out of range");
    const auto group = static_cast<std::size_t>(groups[at]);
    if (seen[group] && found[group] != numbers[at]) return std::nullopt;
    found[group] = numbers[at];
    seen[group] = true;
  }
  return found;
}

std::pair<std::vector<Offset>, std::vector<Index>> lists_of_ranges(std::span<const Offset> ranges) {
  std::vector<Offset> indptr(1, 0);
  std::vector<Index> ids;
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) {
    for (Offset id = ranges[i]; id < ranges[i + 1]; ++id) ids.push_back(static_cast<Index>(id));
    indptr.push_back(static_cast<Offset>(ids.size()));
  }
  return {std::move(indptr), std::move(ids)};
}

}  // namespace manyclass
