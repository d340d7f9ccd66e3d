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
  const std::size_t n = d.rows.size();
  const bool lists = !d.begins.empty();
  if (d.chosen.size() != n || (lists && (d.begins.size() != n || d.ends.size() != n))) {
    throw std::invalid_argument("rows, choices and lists differ in length");
  }
  if (d.n_draws < 1 || !(d.share >= 0 && d.share < 1)) throw std::invalid_argument("n_draws or share is out of range");
  if (!d.among() && d.n_alternatives < 2) throw std::invalid_argument("there is nothing to draw beside the choice");
  if (d.share > 0 && (d.past.empty() || d.shares.size() != static_cast<std::size_t>(d.n_alternatives))) {
    throw std::invalid_argument("popular alternatives need past choices and their shares");
  }
  const auto fits = [&](Index k) { return k >= 0 && k < d.n_alternatives; };
  if (!std::ranges::all_of(d.chosen, fits) || !std::ranges::all_of(d.past, fits)) {
    throw std::invalid_argument("a choice is out of range");
  }
  const auto size = static_cast<Offset>(d.alternatives.size());
  if ((lists && d.pair_features.size() != d.alternatives.size() * d.n_pair_features) ||
      (!d.offsets.empty() && d.offsets.size() != d.alternatives.size())) {
    throw std::invalid_argument("features of pairs or offsets do not fit the lists");
  }
  for (std::size_t i = 0; i < d.begins.size(); ++i) {
    if (d.begins[i] < 0 || d.ends[i] < d.begins[i] || d.ends[i] > size) throw std::invalid_argument("a list is none");
  }
}

class Drawing {
 public:
  Drawing(const ChoiceDraws& draws, DrawnSets& sets) : d_(draws), sets_(sets) {}

  void row(std::size_t i) {
    Rng rng({d_.seed, d_.epoch}, static_cast<std::uint64_t>(d_.rows[i]));
    const auto at = static_cast<std::size_t>(sets_.indptr[i]), end = static_cast<std::size_t>(sets_.indptr[i + 1]);
    sets_.alternatives[at] = d_.chosen[i];
    sets_.log_weights[at] = 0;
    if (d_.among()) {
      some_of_list(i, at, end, rng);
    } else {
      for (std::size_t p = at + 1; p < end; ++p) one_of_all(i, p, rng);
      for (std::size_t p = at; p < end && !d_.begins.empty(); ++p) look_up(i, p);
    }
  }

 private:
  double q(Index k) const {
    const double popular = d_.share > 0 ? d_.share * d_.shares[static_cast<std::size_t>(k)] : 0.0;
    return (1 - d_.share) / d_.n_alternatives + popular;
  }

  void one_of_all(std::size_t i, std::size_t p, Rng& rng) {
    Index k = d_.chosen[i];
    while (k == d_.chosen[i]) {
      const bool popular = d_.share > 0 && rng.uniform() < d_.share;
      k = popular ? d_.past[rng.below(static_cast<std::uint32_t>(d_.past.size()))]
                  : static_cast<Index>(rng.below(static_cast<std::uint32_t>(d_.n_alternatives)));
    }
    sets_.alternatives[p] = k;
    sets_.log_weights[p] = std::log((1 - q(d_.chosen[i])) / (d_.n_draws * q(k)));
  }

  // What the list at `place` has of the alternative at p.
  void take(std::size_t place, std::size_t p) {
    const std::size_t r = d_.n_pair_features;
    std::copy_n(d_.pair_features.data() + place * r, r, sets_.pair_features.data() + p * r);
    if (!d_.offsets.empty()) sets_.offsets[p] = d_.offsets[place];
  }

  void look_up(std::size_t i, std::size_t p) {
    const auto begin = d_.alternatives.begin() + d_.begins[i], end = d_.alternatives.begin() + d_.ends[i];
    const auto found = std::lower_bound(begin, end, sets_.alternatives[p]);
    if (found != end && *found == sets_.alternatives[p]) {
      take(static_cast<std::size_t>(found - d_.alternatives.begin()), p);
    }
  }

  // Floyd's distinct numbers below n - 1, which pass over the place of the choice.
  void some_of_list(std::size_t i, std::size_t at, std::size_t end, Rng& rng) {
    const auto begin = static_cast<std::size_t>(d_.begins[i]);
    const auto n = static_cast<std::size_t>(d_.ends[i]) - begin;
    const auto own = d_.alternatives.subspan(begin, n);
    const auto y = static_cast<std::size_t>(std::find(own.begin(), own.end(), d_.chosen[i]) - own.begin());
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
  DrawnSets& sets_;
};

}  // namespace

DrawnSets draw_choice_sets(const ChoiceDraws& draws) {
  check(draws);
  const std::size_t n = draws.rows.size();
  DrawnSets sets;
  sets.indptr.resize(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    Offset size = 1 + draws.n_draws;
    if (draws.among()) {
      const auto own = draws.alternatives.subspan(static_cast<std::size_t>(draws.begins[i]),
                                                  static_cast<std::size_t>(draws.ends[i] - draws.begins[i]));
      if (std::find(own.begin(), own.end(), draws.chosen[i]) == own.end()) {
        throw std::invalid_argument("row " + std::to_string(draws.rows[i]) + " has chosen alternative " +
                                    std::to_string(draws.chosen[i]) + ", which is not available to it");
      }
      size = std::min(size, static_cast<Offset>(own.size()));
    }
    sets.indptr[i + 1] = sets.indptr[i] + size;
  }
  const auto total = static_cast<std::size_t>(sets.indptr[n]);
  sets.alternatives.resize(total);
  sets.log_weights.resize(total);
  sets.offsets.resize(total);
  sets.pair_features.resize(total * draws.n_pair_features);
  constexpr std::size_t together = 256;
  parallel_for(draws.n_threads, (n + together - 1) / together, [&](std::size_t piece) {
    Drawing drawing(draws, sets);
    for (std::size_t i = piece * together; i < std::min(n, (piece + 1) * together); ++i) drawing.row(i);
  });
  return sets;
}

}  // namespace manyclass
