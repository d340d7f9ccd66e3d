// See draws.hpp.
#include "manyclass/choice/draws.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <unordered_set>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"

namespace manyclass {

namespace {

void check(const ChoiceDraws& d) {
  const auto n_listed = static_cast<Offset>(d.alternatives.size());
  if (d.indptr.empty() || d.indptr.front() != 0 || d.indptr.back() != n_listed || !std::ranges::is_sorted(d.indptr)) {
    throw std::invalid_argument("indptr does not fit the lists");
  }
  const auto is_row = [&](Offset i) { return i >= 0 && static_cast<std::size_t>(i) < d.n_rows(); };
  if (d.chosen.size() != d.n_rows() || !std::ranges::all_of(d.rows, is_row)) {
    throw std::invalid_argument("rows, choices and lists differ in length");
  }
  if (d.n_draws < 1 || !(d.share >= 0 && d.share < 1)) throw std::invalid_argument("n_draws or share is out of range");
  if (!d.listed_only && d.n_alternatives() < 2)
    throw std::invalid_argument("there is nothing to draw beside the choice");
  const auto fits = [&](Index k) { return k >= 0 && static_cast<std::size_t>(k) < d.n_alternatives(); };
  if (!std::ranges::all_of(d.chosen, fits)) throw std::invalid_argument("a choice is out of range");
}

class Drawing {
 public:
  Drawing(const ChoiceDraws& draws, DrawnSets& sets) : d_(draws), sets_(sets) {}

  std::span<const Index> list(std::size_t row) const {
    const auto begin = static_cast<std::size_t>(d_.indptr[row]), end = static_cast<std::size_t>(d_.indptr[row + 1]);
    return d_.alternatives.subspan(begin, end - begin);
  }

  // How many alternatives the i-th of the rows has with its choice.
  Offset size(std::size_t i) const {
    const auto row = static_cast<std::size_t>(d_.rows[i]);
    if (!d_.listed_only) return 1 + d_.n_draws;
    if (!std::ranges::binary_search(list(row), d_.chosen[row])) {
      throw std::invalid_argument("row " + std::to_string(row) + " has chosen alternative " +
                                  std::to_string(d_.chosen[row]) + ", which is not available to it");
    }
    return std::min(1 + d_.n_draws, static_cast<int>(list(row).size()));
  }

  void draw(std::size_t i) {
    Rng rng({d_.seed, d_.epoch}, static_cast<std::uint64_t>(d_.rows[i]));
    const auto at = static_cast<std::size_t>(sets_.indptr[i]), end = static_cast<std::size_t>(sets_.indptr[i + 1]);
    const auto row = static_cast<std::size_t>(d_.rows[i]);
    sets_.alternatives[at] = d_.chosen[row];
    sets_.log_weights[at] = 0;
    if (d_.listed_only) {
      draw_of_list(row, at, end, rng);
    } else {
      for (std::size_t p = at + 1; p < end; ++p) draw_of_all(d_.chosen[row], p, rng);
    }
    for (std::size_t p = at; p < end; ++p) {
      const auto own = list(row);
      const auto entry = std::ranges::lower_bound(own, sets_.alternatives[p]);
      const bool listed = entry != own.end() && *entry == sets_.alternatives[p];
      sets_.entries[p] = listed ? d_.indptr[row] + (entry - own.begin()) : -1;
    }
  }

 private:
  double q(Index k) const {
    return (1 - d_.share) / static_cast<double>(d_.n_alternatives()) +
           d_.share * d_.shares[static_cast<std::size_t>(k)];
  }

  void draw_of_all(Index chosen, std::size_t p, Rng& rng) {
    Index k = chosen;
    while (k == chosen) {
      const bool popular = d_.share > 0 && rng.uniform() < d_.share;
      k = popular ? d_.chosen[rng.below(static_cast<std::uint32_t>(d_.chosen.size()))]
                  : static_cast<Index>(rng.below(static_cast<std::uint32_t>(d_.n_alternatives())));
    }
    sets_.alternatives[p] = k;
    sets_.log_weights[p] = std::log((1 - q(chosen)) / (d_.n_draws * q(k)));
  }

  // Floyd's distinct numbers below n - 1, which pass over the place of the choice.
  void draw_of_list(std::size_t row, std::size_t at, std::size_t end, Rng& rng) {
    const auto own = list(row);
    const auto y = static_cast<std::size_t>(std::ranges::lower_bound(own, d_.chosen[row]) - own.begin());
    const std::size_t m = end - at - 1, others = own.size() - 1;
    const double log_weight = std::log(static_cast<double>(others) / static_cast<double>(m));
    std::unordered_set<std::size_t> drawn;
    std::size_t p = at + 1;
    for (std::size_t last = others - m; last < others; ++last) {
      std::size_t place = m == others ? last : rng.below(static_cast<std::uint32_t>(last + 1));
      if (m < others && !drawn.insert(place).second) drawn.insert(place = last);
      sets_.alternatives[p] = own[place + (place >= y ? 1 : 0)];
      sets_.log_weights[p++] = log_weight;
    }
  }

  const ChoiceDraws& d_;
  DrawnSets& sets_;
};

}  // namespace

DrawnSets draw_choice_sets(const ChoiceDraws& draws) {
  check(draws);
  const std::size_t n = draws.rows.size();
  DrawnSets sets;
  Drawing drawing(draws, sets);
  sets.indptr.resize(n + 1);
  for (std::size_t i = 0; i < n; ++i) sets.indptr[i + 1] = sets.indptr[i] + drawing.size(i);
  const auto total = static_cast<std::size_t>(sets.indptr[n]);
  sets.alternatives.resize(total);
  sets.log_weights.resize(total);
  sets.entries.resize(total);
  constexpr std::size_t together = 256;
  parallel_for(draws.n_threads, (n + together - 1) / together, [&](std::size_t piece) {
    for (std::size_t i = piece * together; i < std::min(n, (piece + 1) * together); ++i) drawing.draw(i);
  });
  return sets;
}

}  // namespace manyclass
