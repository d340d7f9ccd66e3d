// What a pair's step moves, and by how much: one class for each way to tell y from other words.
//
// Each has draw(), which names the rows, and coefficients(), which turns their scores into g, v_t += g_t h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "manyclass/math/logistic.hpp"
#include "manyclass/objective/point.hpp"
#include "manyclass/select/noise.hpp"
#include "manyclass/text/huffman.hpp"
#include "manyclass/words/sentences.hpp"

namespace manyclass {

// A pair on its way: drawn some pairs before its step, so that its rows are in the cache by then.
struct PairSlot {
  explicit PairSlot(std::size_t capacity)
      : list(capacity),
        alpha(capacity),
        times(capacity),
        scratch(2 * capacity),
        scores((capacity + line_floats - 1) / line_floats * line_floats),
        g(scores.size()) {}

  Index centre = 0;
  std::span<const Index> rows;
  std::span<const float> signs;  // of a tree
  std::vector<Index> list;
  std::vector<float> alpha, times, scratch;
  std::vector<float> scores, g;  // whole lines, of which the rest has any numbers
};

// g_t = eta F(z_t) of n scores, and of others that fill the last vector: a loop over six numbers would not be one.
inline void write_sigmoids(float eta, std::span<const float> z, std::size_t n, std::span<float> g) {
  constexpr std::size_t some = 8;
  for (std::size_t t = 0; t < n; t += some) {
    float part[some];
    std::memcpy(part, z.data() + t, sizeof part);
    MANYCLASS_AS_VECTORS
    for (float& one : part) one = eta * sigmoid(one);
    std::memcpy(g.data() + t, part, sizeof part);
  }
}

// The loss of a pair is an estimate to watch: a sixteenth of the pairs shows it, and costs nothing.
inline constexpr Offset pairs_per_loss = 16;

struct NegativeTargets {
  NoiseTable noise;
  std::size_t n_negatives;
  bool share;

  std::size_t capacity() const { return n_negatives + 1; }

  void draw(Rng& rng, Index y, bool new_centre, std::vector<Index>& drawn, PairSlot& slot) const {
    drawn.resize(n_negatives);
    if (new_centre || !share) {
      for (Index& k : drawn) k = noise.draw(rng);
    }
    std::size_t n = 0;
    slot.list[n++] = y;
    for (const Index k : drawn) {
      slot.list[n] = k;
      n += k != y ? 1 : 0;
    }
    slot.rows = std::span<const Index>(slot.list).first(n);
  }

  bool coefficients(const SkipGramProblem&, const Stretch&, float eta, Isa, PairSlot& slot, Progress& progress) const {
    const std::size_t n = slot.rows.size();
    slot.scores[0] = -slot.scores[0];
    write_sigmoids(-eta, slot.scores, n, slot.g);
    slot.g[0] = -slot.g[0];
    if (progress.pairs % pairs_per_loss == 0) {
      for (std::size_t t = 0; t < n; ++t) progress.loss += static_cast<double>(softplus(slot.scores[t]));
      ++progress.loss_pairs;
    }
    return true;
  }
};

struct TreeTargets {
  HuffmanTree tree;

  std::size_t capacity() const { return static_cast<std::size_t>(tree.longest()); }

  void draw(Rng&, Index y, bool, std::vector<Index>&, PairSlot& slot) const {
    const auto begin = static_cast<std::size_t>(tree.starts[static_cast<std::size_t>(y)]);
    const std::size_t size = static_cast<std::size_t>(tree.starts[static_cast<std::size_t>(y) + 1]) - begin;
    slot.rows = std::span<const Index>(tree.nodes).subspan(begin, size);
    slot.signs = std::span<const float>(tree.signs).subspan(begin, size);
  }

  bool coefficients(const SkipGramProblem&, const Stretch&, float eta, Isa, PairSlot& slot, Progress& progress) const {
    const std::size_t n = slot.rows.size();
    for (std::size_t t = 0; t < n; ++t) slot.scores[t] *= -slot.signs[t];
    write_sigmoids(eta, slot.scores, n, slot.g);
    for (std::size_t t = 0; t < n; ++t) slot.g[t] *= slot.signs[t];
    if (progress.pairs % pairs_per_loss == 0) {
      for (std::size_t t = 0; t < n; ++t) progress.loss += static_cast<double>(softplus(slot.scores[t]));
      ++progress.loss_pairs;
    }
    return true;
  }
};

// The label's row comes first, then those of the draws. An implicit step is implicit in the output rows and in v_x,
// given h_x; h_x then moves by the coefficients so found.
struct SampledTargets {
  Frequency select;
  std::shared_ptr<const PointStep> step;
  std::span<double> carried;

  std::size_t capacity() const { return select.capacity() + 1; }

  void draw(Rng& rng, Index y, bool, std::vector<Index>&, PairSlot& slot) const {
    const DrawBuffers buffers{std::span(slot.list).subspan(1), slot.alpha, slot.times};
    const ClassList classes = select.draw(Rng({rng.next(), 0}, 0), 0, std::span(&y, 1), buffers);
    slot.list[0] = y;
    slot.rows = std::span<const Index>(slot.list).first(classes.size() + 1);
  }

  bool coefficients(const SkipGramProblem& problem, const Stretch& stretch, float eta, Isa isa, PairSlot& slot,
                    Progress& progress) const {
    const std::size_t n = slot.rows.size() - 1;
    SampledPoint point{std::span<const float>(slot.scores).subspan(1, n),
                       std::span<const float>(slot.alpha).first(n),
                       static_cast<double>(slot.scores[0]),
                       static_cast<double>(problem.input.norm_sq(slot.centre, isa)),
                       static_cast<double>(eta),
                       stretch.eta_u,
                       stretch.pass,
                       select.label_alpha(slot.rows[0])};
    point.times = std::span<const float>(slot.times).first(n);
    double& carried_by_centre = carried[static_cast<std::size_t>(slot.centre)];
    double v = carried_by_centre;
    const std::span<float> p = std::span(slot.g).subspan(1, n);
    const Move move = step->solve(isa, point, v, p, slot.scratch);
    if (!(move.total * point.x_sq < runaway) || !std::isfinite(v)) return false;
    carried_by_centre = v;
    slot.g[0] = static_cast<float>(move.label);
    for (float& p_k : p) p_k = -p_k;
    progress.loss += move.loss;
    ++progress.loss_pairs;
    return true;
  }
};

}  // namespace manyclass
