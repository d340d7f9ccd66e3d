// The training loop: visit points, select classes, score, solve the step, move a few rows of W.
//
// Two ways to run it. `alone`: each thread makes whole visits one after the other; with one thread that is plain SGD,
// with several it is Hogwild, whose races on W are accepted (a lost update costs one step; scores are never torn, since
// a float is written at once; tests/cpp/hogwild.supp names the functions that race). `in_batches`: the threads compute
// the steps of a batch at the same weights, then each applies all of them to its own part of the classes, in visit
// order: the result is the same for any number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/step/point_step.hpp"
#include "manyclass/train/norm_ball.hpp"
#include "manyclass/train/slots.hpp"
#include "manyclass/train/trainer.hpp"

namespace manyclass {

template <class Rows, Selection Select>
class Epoch final : public Trainer {
 public:
  Epoch(Problem<Rows> problem, Select select, std::unique_ptr<const PointStep> step, Settings settings)
      : problem_(problem), select_(std::move(select)), step_(std::move(step)), settings_(settings) {
    if (settings_.ridge > 0) weigh_visits();
  }

  Progress run(const Stretch& stretch) override {
    order_visits(stretch.pass);
    diverged_ = -1;
    const auto slots = [&](std::size_t n) {
      return Slots<Classes>(n, select_.capacity(), lists, Select::repeats, settings_.ridge > 0);
    };
    Progress progress;
    if (settings_.batch > 1 && !settings_.hogwild) {
      Slots<Classes> shared = slots(static_cast<std::size_t>(settings_.batch));
      progress.loss = stretch.loss;
      run_team(settings_.n_threads, [&](Member me) { in_batches(me, stretch, shared, progress); });
    } else {
      std::vector<Progress> parts(static_cast<std::size_t>(settings_.hogwild ? settings_.n_threads : 1));
      parts.front().loss = stretch.loss;
      next_ = stretch.first;
      run_team(static_cast<int>(parts.size()), [&](Member me) {
        Slots<Classes> own = slots(ahead);
        alone(stretch, own, parts[static_cast<std::size_t>(me.rank())]);
      });
      for (const Progress& part : parts) {
        progress.loss += part.loss;
        progress.class_updates += part.class_updates;
      }
    }
    progress.diverged_at = diverged_;
    return progress;
  }

 private:
  using Classes = typename Select::Classes;
  using Slot = typename Slots<Classes>::Slot;
  static constexpr bool lists = !std::is_same_v<Classes, ClassRange>;
  // Visits whose classes are drawn ahead, and how many before its use the memory of a visit is asked for: about two
  // steps (microseconds) hide a miss in all caches.
  static constexpr std::size_t ahead = 64;
  static constexpr std::size_t prefetch_distance = 2;

  void order_visits(int pass) {
    if (!settings_.shuffle || pass == ordered_pass_) return;
    order_.resize(problem_.labels.size());
    std::iota(order_.begin(), order_.end(), 0);
    shuffle(order_, Rng({settings_.seed, static_cast<std::uint64_t>(pass)}, visit_order_item));
    ordered_pass_ = pass;
  }

  // b_k = 1 / P(row k is touched by a visit): as the label, or else by the selection (Fagan & Iyengar 2018, below
  // eq. 6). A touched row pays b_k times its share of the ridge.
  void weigh_visits() {
    std::vector<double> count(static_cast<std::size_t>(problem_.n_classes));
    for (const Index y : problem_.labels) ++count[static_cast<std::size_t>(y)];
    const auto n = static_cast<double>(problem_.labels.size());
    visit_weight_.resize(count.size());
    for (std::size_t k = 0; k < count.size(); ++k) {
      const double touched = count[k] + (n - count[k]) * select_.inclusion(static_cast<Index>(k));
      visit_weight_[k] = static_cast<float>(n / touched);
    }
  }

  Index visit(Index t) const { return settings_.shuffle ? order_[static_cast<std::size_t>(t)] : t; }
  Index label(Index i) const { return problem_.labels[static_cast<std::size_t>(i)]; }
  double features_sq(Index i) const { return static_cast<double>(problem_.x_sq[static_cast<std::size_t>(i)]); }
  double intercept_sq() const { return problem_.model.intercept.empty() ? 0.0 : 1.0; }

  void draw(Index t, const Stretch& stretch, Slot& slot) const {
    const Index i = visit(t);
    const auto named_by = static_cast<std::uint64_t>(settings_.share_classes ? visit(t - t % settings_.batch) : i);
    const Rng rng({settings_.seed, static_cast<std::uint64_t>(stretch.pass)}, named_by);
    slot.point = i;
    slot.batch = std::min(settings_.batch, static_cast<Index>(problem_.labels.size()) - (t - t % settings_.batch));
    slot.now = stretch.pass + static_cast<double>(t) / static_cast<double>(problem_.labels.size());
    slot.classes = select_.draw(rng, i, std::span(&problem_.labels[static_cast<std::size_t>(i)], 1), slot.buffers());
  }

  void prefetch(const Slot& slot) const {
    const auto x = problem_.x.row(slot.point);
    problem_.model.rows.prefetch(x, slot.classes, label(slot.point));
  }

  // The step of a slot at the current weights; leaves -p in the slot, ready to be added.
  void solve(const Stretch& stretch, Slot& slot, std::vector<float>& scratch) {
    const Index i = slot.point;
    const auto x = problem_.x.row(i);
    const std::size_t size = slot.classes.size();
    scratch.resize(2 * select_.capacity());
    float label_score = 0;
    run_with(settings_.isa, [&] {
      problem_.model.scores(x, slot.classes, slot.scores);
      label_score = problem_.model.score(x, label(i));
    });
    SampledPoint point{slot.scores.first(size),
                       slot.alpha.first(size),
                       static_cast<double>(label_score),
                       features_sq(i) + intercept_sq(),
                       stretch.eta,
                       stretch.eta_u,
                       stretch.pass,
                       select_.label_alpha(label(i))};
    if (Select::repeats) point.times = slot.times.first(size);
    if (!problem_.local_scale.empty()) {
      point.local_scale = &problem_.local_scale[static_cast<std::size_t>(i)];
      point.key = {settings_.seed, static_cast<std::uint64_t>(stretch.pass)};
      point.item = first_local_item + static_cast<std::uint64_t>(i);
    }
    if (settings_.mean_of_batch) point.eta /= slot.batch;
    if (settings_.ridge > 0) run_with(settings_.isa, [&] { shrink_scores(point, slot); });

    const std::span<float> p = slot.moves.first(size);
    double u = problem_.u[static_cast<std::size_t>(i)];
    slot.move = step_->solve(settings_.isa, point, u, p, std::span<float>(scratch).first(2 * size));
    if (!(slot.move.total * point.x_sq < runaway) || !fits_float(slot.move.total) || !fits_float(slot.move.label) ||
        !std::isfinite(u)) {
      // The first of the batch by number, whichever thread saw it.
      for (Index seen = diverged_; (seen < 0 || i < seen) && !diverged_.compare_exchange_weak(seen, i);) {
      }
      return;
    }
    if (select_.with_label) slot.move.loss = without_label(slot);
    if (std::isfinite(settings_.u_max)) u = std::fmin(std::fmax(u, 0.0), settings_.u_max);
    problem_.u[static_cast<std::size_t>(i)] = u;
    for (float& p_k : p) p_k = -p_k;
  }

  // The loss of a point whose draws hold its label, which is to count once: log(A - alpha_y), at least log 1.
  double without_label(const Slot& slot) const {
    const double loss = slot.move.loss;
    for (std::size_t c = 0; c < slot.classes.size(); ++c) {
      if (slot.classes[c] != label(slot.point)) continue;
      return std::fmax(0.0, loss + std::log1p(-static_cast<double>(slot.alpha[c]) * std::exp(-loss)));
    }
    return loss;
  }

  static bool fits_float(double p) {
    return std::fabs(p) <= static_cast<double>(std::numeric_limits<float>::max());  // false for NaN
  }

  // The ridge multiplies w_k by s_k = 1 / (1 + eta alpha b_k), its own proximal step. An implicit step is told the
  // scores and |x|^2 that this leaves, so that both are one proximal step; w_k then moves by s_k p_k x, which is what
  // moving by p_k x and shrinking afterwards does.
  void shrink_scores(SampledPoint& point, Slot& slot) {
    const std::size_t size = slot.classes.size(), n_shrink = select_.n_random(slot.classes);
    const auto rate = static_cast<float>(point.eta * settings_.ridge);
    const auto x_sq = static_cast<float>(features_sq(slot.point));
    const auto constant = static_cast<float>(intercept_sq());
    const Index y = label(slot.point);
    for_runs(slot.classes, [&](ClassRange run, std::size_t at) {
      const auto weight = at_classes(std::span<const float>(visit_weight_), run);
      const std::span<float> shrinks = slot.shrinks.subspan(at, run.size());
      for (std::size_t c = 0; c < run.size(); ++c) shrinks[c] = 1 / (1 + rate * weight[c]);
      if (y >= run.begin && y < run.end()) shrinks[static_cast<std::size_t>(y - run.begin)] = 1;
    });
    // Classes that are not drawn do not stand for the ridge of the others.
    for (std::size_t c = n_shrink; c < size; ++c) slot.shrinks[c] = 1;
    for (std::size_t c = 0; c < size; ++c) slot.x_sqs[c] = slot.shrinks[c] * x_sq + constant;
    slot.label_shrink = 1 / (1 + rate * visit_weight_[static_cast<std::size_t>(y)]);
    if (!step_->shrinks_first()) return;

    auto z_y = static_cast<float>(point.label_score);
    if (problem_.model.intercept.empty()) {
      for (std::size_t c = 0; c < size; ++c) slot.scores[c] *= slot.shrinks[c];
      z_y *= slot.label_shrink;
    } else {
      for_runs(slot.classes, [&](ClassRange run, std::size_t at) {
        const auto b = at_classes(problem_.model.intercept, run);
        const auto scores = slot.scores.subspan(at, run.size());
        for (std::size_t c = 0; c < run.size(); ++c) scores[c] = b[c] + slot.shrinks[at + c] * (scores[c] - b[c]);
      });
      const float b_y = problem_.model.intercept[static_cast<std::size_t>(y)];
      z_y = b_y + slot.label_shrink * (z_y - b_y);
    }
    point.label_score = static_cast<double>(z_y);
    point.x_sq = static_cast<double>(slot.label_shrink) * features_sq(slot.point) + intercept_sq();
    point.x_sqs = slot.x_sqs.first(size);
  }

  void move_rows(const Slot& slot, const ClassLines& classes, std::span<float> moves, std::span<const float> shrinks,
                 const Stretch& stretch) {
    for_runs(classes, [&](ClassRange run, std::size_t c) {
      move_rows(slot, run, moves.subspan(c, run.size()), shrinks.empty() ? shrinks : shrinks.subspan(c, run.size()),
                stretch);
    });
  }

  // Moves the rows `classes` by `moves` times x, then shrinks them.
  template <class Some>
  void move_rows(const Slot& slot, const Some& classes, std::span<float> moves, std::span<const float> shrinks,
                 const Stretch& stretch) {
    const auto x = problem_.x.row(slot.point);
    if (problem_.squares) {
      move_adaptively(slot, x, classes, moves, stretch);
    } else {
      problem_.model.add(x, classes, moves);
    }
    if (!shrinks.empty()) problem_.model.shrink(classes, shrinks);
  }

  // The rule takes gradients of the summed loss: `moves` are eta times those of one point's share of the mean. Its rate
  // falls as 1 / sqrt(iterations made).
  template <class Row, class Some>
  void move_adaptively(const Slot& slot, Row x, const Some& classes, std::span<float> moves, const Stretch& stretch) {
    const auto n = static_cast<double>(problem_.labels.size());
    const auto to_sum = static_cast<float>(n / stretch.eta);
    const auto visits = std::llround(slot.now * n);  // a whole number but for rounding
    const auto rate = static_cast<float>(stretch.eta / std::sqrt(1.0 + static_cast<double>(visits / settings_.batch)));
    for (std::size_t c = 0; c < classes.size(); ++c) {
      moves[c] *= to_sum;
      if (problem_.model.intercept.empty() || moves[c] == 0) continue;
      const auto k = static_cast<std::size_t>(classes[c]);
      adapt(problem_.model.intercept[k], problem_.intercept_squares[k], moves[c], rate);
    }
    problem_.model.rows.add_adaptive(x, classes, moves.first(classes.size()), rate, *problem_.squares);
  }

  void apply(Slot& slot, const Stretch& stretch) {
    const std::size_t size = slot.classes.size();
    const bool ridge = settings_.ridge > 0;
    std::optional<NormBall> ball;
    if (std::isfinite(settings_.max_norm)) {
      ball.emplace(problem_.model.intercept, settings_.norm_sq, settings_.max_norm);
      float z_y = problem_.model.score(problem_.x.row(slot.point), label(slot.point));
      for (std::size_t c = 0; c < size; ++c) {
        ball->grow(slot.classes[c], slot.scores[c], slot.moves[c], features_sq(slot.point));
        if (slot.classes[c] == label(slot.point)) z_y += slot.moves[c] * static_cast<float>(features_sq(slot.point));
      }
      ball->grow(label(slot.point), z_y, static_cast<float>(slot.move.label), features_sq(slot.point));
    }
    run_with(settings_.isa, [&] {
      const std::span<const float> shrinks = ridge ? slot.shrinks.first(size) : std::span<float>{};
      move_rows(slot, slot.classes, slot.moves.first(size), shrinks, stretch);
      move_label(slot, stretch);
    });
    if (ball) {
      for (std::size_t c = 0; c < size; ++c) ball->project(slot.classes[c], problem_.model);
      ball->project(label(slot.point), problem_.model);
    }
  }

  void move_label(Slot& slot, const Stretch& stretch) {
    float rise = static_cast<float>(slot.move.label);
    const std::span<const float> shrink(&slot.label_shrink, settings_.ridge > 0 ? 1 : 0);
    move_rows(slot, ClassRange{label(slot.point), 1}, std::span<float>(&rise, 1), shrink, stretch);
  }

  // The part of a slot that falls on the classes `mine`.
  void apply_part(Slot& slot, ClassRange mine, const Stretch& stretch) {
    const bool ridge = settings_.ridge > 0;
    for_runs(slot.classes, [&](ClassRange run, std::size_t at) {
      const ClassRange part = intersect(run, mine);
      if (part.count == 0) return;
      const std::size_t c = at + static_cast<std::size_t>(part.begin - run.begin);
      move_rows(slot, part, slot.moves.subspan(c, part.size()),
                ridge ? slot.shrinks.subspan(c, part.size()) : std::span<float>{}, stretch);
    });
    const Index y = label(slot.point);
    if (y >= mine.begin && y < mine.end()) move_label(slot, stretch);
  }

  void alone(const Stretch& stretch, Slots<Classes>& slots, Progress& part) {
    Progress mine = part;  // on this thread's stack: parts share cache lines
    std::vector<float> scratch;
    while (diverged_ < 0) {
      const Offset taken = next_.fetch_add(static_cast<Offset>(ahead));
      if (taken >= stretch.last) break;
      const auto begin = static_cast<Index>(taken);
      const auto n = static_cast<std::size_t>(std::min<Index>(static_cast<Index>(ahead), stretch.last - begin));
      for (std::size_t s = 0; s < n; ++s) draw(begin + static_cast<Index>(s), stretch, slots[s]);
      for (std::size_t s = 0; s < std::min(n, prefetch_distance); ++s) prefetch(slots[s]);
      for (std::size_t s = 0; s < n && diverged_ < 0; ++s) {
        if (s + prefetch_distance < n) prefetch(slots[s + prefetch_distance]);
        solve(stretch, slots[s], scratch);
        if (diverged_ < 0) apply(slots[s], stretch);
        mine.loss += slots[s].move.loss;
        mine.class_updates += static_cast<std::int64_t>(slots[s].classes.size()) + 1;
      }
    }
    part = mine;
  }

  void in_batches(Member me, const Stretch& stretch, Slots<Classes>& slots, Progress& progress) {
    // Shares of whole cache lines of classes.
    const auto lines = (static_cast<std::size_t>(problem_.n_classes) + line_floats - 1) / line_floats;
    const auto [first_line, last_line] = me.share(lines);
    const auto first = static_cast<Index>(first_line * line_floats);
    const ClassRange mine{first, static_cast<Index>(last_line * line_floats) - first};
    std::vector<float> scratch;

    for (Index begin = stretch.first; begin < stretch.last; begin += settings_.batch) {
      const auto n = static_cast<std::size_t>(std::min(settings_.batch, stretch.last - begin));
      const auto [from, to] = me.share(n);
      for (std::size_t s = from; s < to; ++s) draw(begin + static_cast<Index>(s), stretch, slots[s]);
      for (std::size_t s = from; s < std::min(to, from + prefetch_distance); ++s) prefetch(slots[s]);
      for (std::size_t s = from; s < to; ++s) {
        if (s + prefetch_distance < to) prefetch(slots[s + prefetch_distance]);
        solve(stretch, slots[s], scratch);
      }
      me.barrier();
      if (diverged_ >= 0) break;  // no thread writes it between the barriers, so all see the same
      run_with(settings_.isa, [&] {
        for (std::size_t s = 0; s < n; ++s) apply_part(slots[s], mine, stretch);
      });
      if (me.rank() == 0) {
        for (std::size_t s = 0; s < n; ++s) {
          progress.loss += slots[s].move.loss;
          progress.class_updates += static_cast<std::int64_t>(slots[s].classes.size()) + 1;
        }
      }
      me.barrier();
    }
  }

  Problem<Rows> problem_;
  Select select_;
  std::unique_ptr<const PointStep> step_;
  Settings settings_;
  std::vector<float> visit_weight_;  // b_k, with a ridge
  std::vector<Index> order_;
  int ordered_pass_ = -1;
  std::atomic<Offset> next_{0};
  std::atomic<Index> diverged_{-1};
};

}  // namespace manyclass
