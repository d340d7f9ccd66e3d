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
  const std::size_t n = d.lists->n_rows();
  const auto is_row = [n](Offset i) { return i >= 0 && static_cast<std::size_t>(i) < n; };
  if (d.chosen.size() != n || !std::ranges::all_of(d.rows, is_row)) {
    throw std::invalid_argument("rows, choices and lists differ in length");
  }
  if (d.n_draws < 1 || !(d.share >= 0 && d.share < 1)) throw std::invalid_argument("n_draws or share is out of range");
  if (!d.lists->only && d.n_alternatives < 2) throw std::invalid_argument("there is nothing to draw beside the choice");
  if (d.share > 0 && d.shares.size() != static_cast<std::size_t>(d.n_alternatives)) {
    throw std::invalid_argument("popular alternatives need their shares");
  }
  const auto fits = [&](Index k) { return k >= 0 && k < d.n_alternatives; };
  if (!std::ranges::all_of(d.chosen, fits)) throw std::invalid_argument("a choice is out of range");
}

class Drawing {
 public:
  Drawing(const ChoiceDraws& draws, ChoiceLists& sets) : d_(draws), sets_(sets) {}

  void row(std::size_t i) {
    Rng rng({d_.seed, d_.epoch}, static_cast<std::uint64_t>(d_.rows[i]));
    const std::size_t at = sets_.begin(i), end = sets_.end(i), row = static_cast<std::size_t>(d_.rows[i]);
    const Index chosen = d_.chosen[row];
    sets_.alternatives[at] = chosen;
    sets_.log_weights[at] = 0;
    if (d_.lists->only) {
      some_of_list(row, chosen, at, end, rng);
    } else {
      for (std::size_t p = at + 1; p < end; ++p) one_of_all(chosen, p, rng);
      for (std::size_t p = at; p < end; ++p) look_up(row, p);
    }
  }

 private:
  double q(Index k) const {
    const double popular = d_.share > 0 ? d_.share * d_.shares[static_cast<std::size_t>(k)] : 0.0;
    return (1 - d_.share) / d_.n_alternatives + popular;
  }

  void one_of_all(Index chosen, std::size_t p, Rng& rng) {
    Index k = chosen;
    while (k == chosen) {
      const bool popular = d_.share > 0 && rng.uniform() < d_.share;
      k = popular ? d_.chosen[rng.below(static_cast<std::uint32_t>(d_.chosen.size()))]
                  : static_cast<Index>(rng.below(static_cast<std::uint32_t>(d_.n_alternatives)));
    }
    sets_.alternatives[p] = k;
    sets_.log_weights[p] = std::log((1 - q(chosen)) / (d_.n_draws * q(k)));
  }

  // What the list at `place` has of the alternative at p.
  void take(std::size_t place, std::size_t p) {
    const std::size_t r = d_.lists->n_features;
    std::copy_n(d_.lists->features.data() + place * r, r, sets_.features.data() + p * r);
    sets_.offsets[p] = d_.lists->offsets[place];
  }

  void look_up(std::size_t row, std::size_t p) {
    const auto& all = d_.lists->alternatives;
    const auto begin = all.begin() + d_.lists->indptr[row], end = all.begin() + d_.lists->indptr[row + 1];
    const auto found = std::lower_bound(begin, end, sets_.alternatives[p]);
    if (found != end && *found == sets_.alternatives[p]) take(static_cast<std::size_t>(found - all.begin()), p);
  }

  // Floyd's distinct numbers below n - 1, which pass over the place of the choice.
  void some_of_list(std::size_t row, Index chosen, std::size_t at, std::size_t end, Rng& rng) {
    const std::size_t begin = d_.lists->begin(row), n = d_.lists->end(row) - begin;
    const auto own = std::span(d_.lists->alternatives).subspan(begin, n);
    const auto y = static_cast<std::size_t>(std::find(own.begin(), own.end(), chosen) - own.begin());
    take(begin + y, at);
    const std::size_t m = end - at - 1, others = n - 1;
    const double log_weight = std::log(static_cast<double>(others) / static_cast<double>(m));
    std::unordered_set<std::size_t> found;
    std::size_t p = at + 1;
    for (std::size_t last = others - m; last < others; ++last) {
      std::size_t place = m == others ? last : rng.below(static_cast<std::uint32_t>(last + 1));
      if (m < others && !found.insert(place).second) found.insert(place = last);
      place += place >= y ? 1 : 0;
      sets_.alternatives[p] = own[place];
      sets_.log_weights[p] = log_weight;
      take(begin + place, p++);
    }
  }

  const ChoiceDraws& d_;
  ChoiceLists& sets_;
};

}  // namespace

ChoiceLists draw_choice_sets(const ChoiceDraws& draws) {
  check(draws);
  const std::size_t n = draws.rows.size();
  const ChoiceLists& lists = *draws.lists;
  ChoiceLists sets;
  sets.n_features = lists.n_features;
  sets.only = true;
  sets.indptr.resize(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(draws.rows[i]);
    Offset size = 1 + draws.n_draws;
    if (lists.only) {
      const auto own = std::span(lists.alternatives).subspan(lists.begin(row), lists.end(row) - lists.begin(row));
      if (std::find(own.begin(), own.end(), draws.chosen[row]) == own.end()) {
        throw std::invalid_argument("row " + std::to_string(row) + " has chosen alternative " +
                                    std::to_string(draws.chosen[row]) + ", which is not available to it");
      }
      size = std::min(size, static_cast<Offset>(own.size()));
    }
    sets.indptr[i + 1] = sets.indptr[i] + size;
  }
  const auto total = static_cast<std::size_t>(sets.indptr[n]);
  sets.alternatives.resize(total);
  sets.offsets.resize(total);
  sets.log_weights.resize(total);
  sets.features.resize(total * sets.n_features);
  constexpr std::size_t together = 256;
  parallel_for(draws.n_threads, (n + together - 1) / together, [&](std::size_t piece) {
    Drawing drawing(draws, sets);
    for (std::size_t i = piece * together; i < std::min(n, (piece + 1) * together); ++i) drawing.row(i);
  });
  return sets;
}

}  // namespace manyclass
