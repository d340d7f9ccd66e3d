// The projection onto the bi-simplex, C = {alpha: alpha_N >= 0, alpha_P <= 0, sum_N alpha = -sum_P alpha = s <= 1}, as
// two basins that are filled with the same amount of water.
//
//   argmax over alpha in C   <z + margin 1_N, alpha> - mu/2 |alpha|^2   =   proj_C((z + margin 1_N) / mu)
//
// N are the wrong classes and P the labels. Let h_j = max_N z - z_j and h_k = z_k - min_P z be the heights of the
// classes. Let v = max_N z + margin - min_P z be by how much the best wrong class is too close. Stationarity is
//
//   alpha_j = [l_N - h_j]_+ / mu,   alpha_k = -[l_P - h_k]_+ / mu,
//
// so mu s is an amount of water. It stands at level l_N in a basin whose floor has the heights h_j, and at level l_P in
// one with h_k. The slope of the maximum in s is v - l_N - l_P, which falls. So water is poured until the levels add up
// to v, or until all of it, s = 1, is in. Nothing is poured where v <= 0.
//
// The wet wrong classes are found as Michelot (JOTA 1986) projects onto a simplex. Over more cells than are wet the
// water stands too high, as if those above the level gave some. So cells above the level are left out, which lowers it,
// until none is: some five sums over the scores that may be wet, without branches. (Yen et al., ICML 2018, eq. 10-11,
// project by sorting all. To halve the cells instead, by comparisons that no processor foresees, took a half of a pass
// of margins over 600 classes.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "manyclass/math/sums.hpp"

namespace manyclass {

// The wet cells of a basin, and what follows from their heights alone.
struct Wet {
  double cells = 0;
  double heights = 0;
  double squares = 0;

  void add(double height, double n = 1) {
    cells += n;
    heights += n * height;
    squares += n * height * height;
  }
  double mean() const { return heights / cells; }
  double level(double water) const { return mean() + water / cells; }
  double water(double level) const { return cells * level - heights; }
  // What it costs to fill the cells to level l from height 0: the sum of (l - h)(l + h) / 2.
  double cost(double level) const { return (cells * level * level - squares) / 2; }
};

// The result: the two levels, from which mu alpha follows class by class.
struct BiSimplex {
  double gap = -std::numeric_limits<double>::infinity();  // v
  double best_n = 0;                                      // the largest wrong score
  double best_p = 0;                                      // the smallest score of a label
  double level_n = 0;
  double level_p = 0;
  double value = 0;  // mu times the maximum

  // mu alpha of a wrong class, and of a label, from its score.
  double negative(double score) const { return std::max(0.0, level_n - (best_n - score)); }
  double positive(double score) const { return std::min(0.0, (score - best_p) - level_p); }
};

namespace bisimplex {

inline constexpr std::size_t lanes = sum_lanes;

// The largest score of each of 16 interleaved parts; -infinity where a part is empty.
struct LaneMaxima {
  float of[lanes];
  float all = -std::numeric_limits<float>::infinity();

  explicit LaneMaxima(std::span<const float> z) {
    FourFloats most[n_fours];
    for (FourFloats& four : most) four = FourFloats{all, all, all, all};
    std::size_t j = raise_maxima(z, most);
    std::memcpy(of, most, sizeof of);
    for (std::size_t l = 0; j < z.size(); ++j, ++l) of[l] = z[j] > of[l] ? z[j] : of[l];
    all = *std::max_element(of, of + lanes);
  }
};

// Appends the scores less than `depth` below `top`.
inline void collect(std::span<const float> z, double top, double depth, std::vector<float>& found) {
  constexpr std::size_t block = 64;  // most blocks hold no such score, and one comparison of their maximum tells it
  const auto may_hold = [&](std::span<const float> part) {
    return top - static_cast<double>(max_of(part, -std::numeric_limits<float>::infinity())) < depth;
  };
  std::size_t n = found.size();
  for (std::size_t begin = 0; begin < z.size(); begin += block) {
    const auto part = z.subspan(begin, std::min(block, z.size() - begin));
    if (!may_hold(part)) continue;
    found.resize(n + part.size());
    for (std::size_t first = 0; first < part.size(); first += lanes) {
      const auto some = part.subspan(first, std::min(lanes, part.size() - first));
      if (!may_hold(some)) continue;
      for (const float score : some) {
        found[n] = score;  // what is not kept is written over
        n += top - static_cast<double>(score) < depth ? 1 : 0;
      }
    }
    found.resize(n);
  }
}

// The cells less than `level` below `top`.
inline Wet cells_under(std::span<const float> scores, double top, double level) {
  constexpr std::size_t pairs = 2;
  using TwoDoubles = Vector<double, 16>;
  const TwoDoubles none = {}, one = {1, 1};
  TwoDoubles cells[pairs] = {}, heights[pairs] = {}, squares[pairs] = {};
  std::size_t j = 0;
  for (; j + 2 * pairs <= scores.size(); j += 2 * pairs) {
#pragma GCC unroll 2
    for (std::size_t p = 0; p < pairs; ++p) {
      const TwoDoubles two = {static_cast<double>(scores[j + 2 * p]), static_cast<double>(scores[j + 2 * p + 1])};
      const TwoDoubles all = top - two, wet = all < level ? all : none;
      cells[p] += all < level ? one : none;
      heights[p] += wet;
      squares[p] += wet * wet;
    }
  }
  const auto sum = [](const TwoDoubles(&sums)[pairs]) {
    const TwoDoubles both = sums[0] + sums[1];
    return both[0] + both[1];
  };
  Wet found{sum(cells), sum(heights), sum(squares)};
  for (; j < scores.size(); ++j) {
    const double height = top - static_cast<double>(scores[j]);
    if (height < level) found.add(height);
  }
  return found;
}

// An amount of water, and the cells that it makes wet in either basin.
struct Filled {
  double water = 0;
  Wet n;
  Wet p;
};

// Both basins. That of the labels has few cells.
struct Basins {
  std::span<const float> labels;  // in rising order
  double best_n;
  double best_p;
  double gap;  // > 0
  double mu;   // > 0

  double height_n(float score) const { return best_n - static_cast<double>(score); }
  double height_p(float score) const { return static_cast<double>(score) - best_p; }

  // The water where the cells `n` of N, and no others, are wet.
  Filled filled(const Wet& n) const {
    Filled out{0, n, {}};
    // Labels become wet one by one, until the next one is above the level over those before.
    for (std::size_t k = 0; k < labels.size() && out.p.water(height_p(labels[k])) <= out.water; ++k) {
      out.p.add(height_p(labels[k]));
      const double meet = (gap - out.n.mean() - out.p.mean()) / (1 / out.n.cells + 1 / out.p.cells);
      out.water = std::clamp(meet, 0.0, mu);
    }
    return out;
  }

  // Pours over the wrong classes of these scores, and over `group` more classes of one score.
  Filled fill(std::span<const float> scores, double group, float group_score) const {
    Filled out;
    for (double level = std::numeric_limits<double>::infinity();;) {
      Wet wet = cells_under(scores, best_n, level);
      if (group > 0 && height_n(group_score) < level) wet.add(height_n(group_score), group);
      if (wet.cells == 0 || (out.n.cells > 0 && wet.cells >= out.n.cells)) return out;
      out = filled(wet);
      level = out.n.level(out.water);
    }
  }
};

}  // namespace bisimplex

// Projects the scores of labels and wrong classes. mu > 0 is the water there is. `rest` more wrong classes have the
// score rest_score. Without a wrong class C is {0}.
inline BiSimplex project_bisimplex(std::span<const float> positives, std::span<const float> negatives, double rest,
                                   float rest_score, double margin, double mu, std::vector<float>& near,
                                   std::vector<float>& labels) {
  BiSimplex out;
  if (negatives.empty() && !(rest > 0)) return out;
  bisimplex::LaneMaxima maxima(negatives);
  out.best_n = static_cast<double>(rest > 0 ? std::max(maxima.all, rest_score) : maxima.all);
  out.best_p = static_cast<double>(*std::min_element(positives.begin(), positives.end()));
  out.gap = (out.best_n - out.best_p) + margin;
  if (!(out.gap > 0)) return out;

  labels.assign(positives.begin(), positives.end());
  std::sort(labels.begin(), labels.end());
  const bisimplex::Basins basins{labels, out.best_n, out.best_p, out.gap, mu};
  // Over only some of the wrong classes the water would stand higher, also where it stops at levels that add up to v.
  // So 16 high ones tell which of the others stay dry. This takes 0.5 ms instead of 20 ms for 10^6 normal scores, 3
  // labels and mu = 5 or 100 (AMD EPYC, AVX-512).
  double dry = std::min(mu, out.gap);
  if (negatives.size() >= bisimplex::lanes) {
    const bisimplex::Filled some = basins.fill(maxima.of, 0, 0);
    if (some.n.cells > 0) dry = std::min(dry, some.n.level(some.water));  // else all are below the rest by v or more
  }
  near.clear();
  bisimplex::collect(negatives, out.best_n, dry, near);

  const bisimplex::Filled all = basins.fill(near, rest, rest_score);
  out.level_n = all.n.level(all.water);
  out.level_p = all.p.level(all.water);
  out.value = all.water * out.gap - all.n.cost(out.level_n) - all.p.cost(out.level_p);
  return out;
}

}  // namespace manyclass
