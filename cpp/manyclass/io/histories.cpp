// See histories.hpp.
#include "manyclass/io/histories.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace manyclass {

namespace {

using Row = std::vector<std::pair<Index, float>>;

// The values of the items of one history, by column, before scaling; item s from its end has weights[s].
void write_row(std::span<const Index> history, std::span<const float> weights, Row& row) {
  row.clear();
  const std::size_t n = std::min(history.size(), weights.size());
  for (std::size_t s = 0; s < n; ++s) row.emplace_back(history[history.size() - 1 - s], weights[s]);
  std::ranges::stable_sort(row, {}, &Row::value_type::first);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (kept > 0 && row[kept - 1].first == row[i].first) {
      row[kept - 1].second += row[i].second;
    } else {
      row[kept++] = row[i];
    }
  }
  row.resize(kept);
}

void check(const Histories& histories) {
  const auto n = static_cast<Offset>(histories.items.size());
  if (histories.begins.size() != histories.ends.size()) throw std::invalid_argument("each history has both ends");
  for (std::size_t i = 0; i < histories.begins.size(); ++i) {
    if (histories.begins[i] < 0 || histories.ends[i] < histories.begins[i] || histories.ends[i] > n) {
      throw std::invalid_argument("a history is not within the items");
    }
  }
}

std::span<const Index> between(std::span<const Index> items, Offset begin, Offset end) {
  return items.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

}  // namespace

HistoryRows recency_rows(const Histories& histories, double decay) {
  check(histories);
  HistoryRows rows;
  rows.indptr.push_back(0);
  Offset longest = 0;
  for (std::size_t i = 0; i < histories.begins.size(); ++i) {
    longest = std::max(longest, histories.ends[i] - histories.begins[i]);
  }
  std::vector<float> weights(std::min(histories.n_last, static_cast<std::size_t>(longest)));
  for (std::size_t s = 0; s < weights.size(); ++s) {
    weights[s] = static_cast<float>(std::pow(1 + static_cast<double>(s), -decay));
  }
  Row row;
  for (std::size_t i = 0; i < histories.begins.size(); ++i) {
    write_row(between(histories.items, histories.begins[i], histories.ends[i]), weights, row);
    double square = 0;
    for (const auto& [item, value] : row) square += static_cast<double>(value) * static_cast<double>(value);
    const double norm = square > 0 ? std::sqrt(square) : 1;
    for (const auto& [item, value] : row) {
      rows.indices.push_back(item);
      rows.data.push_back(static_cast<float>(static_cast<double>(value) / norm));
    }
    rows.indptr.push_back(static_cast<Offset>(rows.indices.size()));
  }
  return rows;
}

KnownItems known_items(std::span<const Index> items, std::span<const Offset> starts) {
  if (starts.empty() || starts.front() != 0 || !std::ranges::is_sorted(starts) ||
      starts.back() != static_cast<Offset>(items.size())) {
    throw std::invalid_argument("the sequences do not begin within the items");
  }
  KnownItems known;
  std::size_t at = 0;
  for (const Offset start : starts) {
    for (; at < static_cast<std::size_t>(start); ++at) {
      if (items[at] >= 0) known.items.push_back(items[at]);
    }
    known.starts.push_back(static_cast<Offset>(known.items.size()));
  }
  return known;
}

NextItems next_items(std::span<const Index> items, std::span<const Offset> starts, std::span<const Offset> n_first) {
  NextItems found;
  found.known = known_items(items, starts);
  if (n_first.size() + 1 != starts.size()) throw std::invalid_argument("there is no first label for each sequence");
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const Offset begin = found.known.starts[i];
    Offset end = begin;
    for (Offset at = starts[i]; at < starts[i + 1]; ++at) {
      const Index item = items[static_cast<std::size_t>(at)];
      if (item < 0) continue;
      if (end > begin && at - starts[i] >= n_first[i]) {
        found.begins.push_back(begin);
        found.ends.push_back(end);
        found.labels.push_back(item);
        found.sequences.push_back(static_cast<Offset>(i));
      }
      ++end;
    }
  }
  return found;
}

}  // namespace manyclass
