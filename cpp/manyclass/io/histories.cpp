// See histories.hpp.
#include "manyclass/io/histories.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace manyclass {

namespace {

constexpr double added_count = 0.1;  // to each item's, so that none is impossible

using Row = std::vector<std::pair<Index, float>>;

// The values of the items of one history, by column, before scaling.
void write_row(std::span<const Index> history, std::size_t n_last, double decay, Row& row) {
  row.clear();
  const std::size_t n = std::min(history.size(), n_last);
  for (std::size_t s = 0; s < n; ++s) {
    const auto weight = static_cast<float>(std::pow(1 + static_cast<double>(s), -decay));
    row.emplace_back(history[history.size() - 1 - s], weight);
  }
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

// A row divided by its sum.
void to_shares(Row& row) {
  double sum = 0;
  for (const auto& [item, value] : row) sum += static_cast<double>(value);
  for (auto& [item, value] : row) value = static_cast<float>(static_cast<double>(value) / sum);
}

// How often one item came with another one in the history before it, for the pairs that are asked for.
class PairCounts {
 public:
  explicit PairCounts(std::size_t n_items) : totals_(n_items) {}

  void ask(Index before, Index after) { counts_.emplace(key(before, after), 0.0); }
  void clear() {
    std::ranges::fill(totals_, 0.0);
    for (auto& [pair, count] : counts_) count = 0;
  }
  void add(Index before, Index after, double share) {
    totals_[static_cast<std::size_t>(before)] += share;
    if (const auto found = counts_.find(key(before, after)); found != counts_.end()) found->second += share;
  }
  double of(Index before, Index after) const { return counts_.at(key(before, after)); }
  double total(Index before) const { return totals_[static_cast<std::size_t>(before)]; }

 private:
  static std::uint64_t key(Index before, Index after) {
    return static_cast<std::uint64_t>(before) << 32 | static_cast<std::uint64_t>(after);
  }

  std::vector<double> totals_;
  std::unordered_map<std::uint64_t, double> counts_;
};

}  // namespace

HistoryRows recency_rows(const Histories& histories, double decay) {
  check(histories);
  HistoryRows rows;
  rows.indptr.push_back(0);
  Row row;
  for (std::size_t i = 0; i < histories.begins.size(); ++i) {
    write_row(between(histories.items, histories.begins[i], histories.ends[i]), histories.n_last, decay, row);
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

int best_decay(std::span<const Index> items, std::span<const Offset> starts, std::size_t n_last, std::size_t n_items,
               std::span<const double> decays, const DecayTrial& trial) {
  if (starts.empty() ||
      std::ranges::any_of(items, [&](Index item) { return item < 0 || static_cast<std::size_t>(item) >= n_items; })) {
    throw std::invalid_argument("an item has no column");
  }
  const std::size_t n = starts.size() - 1;
  check({items, starts.first(n), starts.last(n), n_last});
  std::vector<std::size_t> long_ones;
  for (std::size_t i = 0; i < n; ++i) {
    if (starts[i + 1] - starts[i] >= 3) long_ones.push_back(i);
  }
  if (long_ones.size() < std::max<std::size_t>(trial.fewest_told, 2)) return -1;

  // Sequences at equal distances, and the items that are counted: no last one of these, and no first one at all.
  const std::size_t n_told = std::min(trial.most_told, long_ones.size() / 2);
  std::vector<char> is_told(n);
  std::vector<std::size_t> told;
  for (std::size_t i = 0; i < n_told; ++i) {
    const std::size_t at = n_told == 1 ? 0 : i * (long_ones.size() - 1) / (n_told - 1);
    told.push_back(long_ones[at]);
    is_told[told.back()] = 1;
  }
  std::size_t n_counted = 0;
  const auto n_counted_of = [&](std::size_t i) {
    const auto length = static_cast<std::size_t>(starts[i + 1] - starts[i]);
    return length == 0 ? 0 : length - 1 - (is_told[i] ? 1 : 0);
  };
  for (std::size_t i = 0; i < n; ++i) n_counted += n_counted_of(i);
  const std::size_t every = 1 + n_counted / trial.most_counted;  // all items of some sequences

  std::vector<double> shares(n_items, added_count);
  double total = added_count * static_cast<double>(n_items);
  const auto each_counted = [&](const auto& use) {
    for (std::size_t i = 0; i < n; i += every) {
      for (std::size_t k = 1; k <= n_counted_of(i); ++k) use(i, starts[i] + static_cast<Offset>(k));
    }
  };
  each_counted([&](std::size_t, Offset at) {
    shares[static_cast<std::size_t>(items[static_cast<std::size_t>(at)])] += 1;
    total += 1;
  });

  PairCounts counts(n_items);
  const auto last_of = [&](std::size_t i) { return items[static_cast<std::size_t>(starts[i + 1] - 1)]; };
  for (const std::size_t i : told) {
    for (const Index before : between(items, starts[i], starts[i + 1] - 1)) counts.ask(before, last_of(i));
  }
  int best = -1;
  double least = std::numeric_limits<double>::infinity();
  Row row;
  for (std::size_t d = 0; d < decays.size(); ++d) {
    counts.clear();
    each_counted([&](std::size_t i, Offset at) {
      write_row(between(items, starts[i], at), n_last, decays[d], row);
      to_shares(row);
      for (const auto& [before, share] : row) {
        counts.add(before, items[static_cast<std::size_t>(at)], static_cast<double>(share));
      }
    });
    double loss = 0;
    for (const std::size_t i : told) {
      write_row(between(items, starts[i], starts[i + 1] - 1), n_last, decays[d], row);
      to_shares(row);
      const Index y = last_of(i);
      double p = 0, counted = 0;
      for (const auto& [before, share] : row) {
        const double a = static_cast<double>(share) / (counts.total(before) + trial.shrinkage);
        p += a * counts.of(before, y);
        counted += a * counts.total(before);
      }
      loss -= std::log(p + (1 - counted) * shares[static_cast<std::size_t>(y)] / total);
    }
    if (loss < least) {
      least = loss;
      best = static_cast<int>(d);
    }
  }
  return best;
}

}  // namespace manyclass
