// Visits to points with one label: select classes, score, solve the step, move a few rows of W.
//
// The policy of the loop for linear models, alone or together: the threads of a team move the rows of their own part of
// the classes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/step/point_step.hpp"
#include "manyclass/train/loop.hpp"
#include "manyclass/train/norm_ball.hpp"
#include "manyclass/train/ridge.hpp"
#include "manyclass/train/slots.hpp"

namespace manyclass {

template <class Rows, Selection Select>
class Points {
  using Classes = typename Select::Classes;
  using Slot = typename Slots<Classes>::Slot;

 public:
  Points(Problem<Rows> problem, Select select, std::unique_ptr<const PointStep> step, const Settings& settings)
      : problem_(problem), select_(std::move(select)), step_(std::move(step)), settings_(settings) {
    if (settings_.ridge > 0) ridge_ = Ridge(problem_, select_, settings_.ridge);
    if (settings_.batch > 1 && !settings_.hogwild) {
      batch_ = slots(static_cast<std::size_t>(settings_.batch));
      scratch_.assign(static_cast<std::size_t>(settings_.n_threads), scratch());
    }
  }

  struct Work {
    Slots<Classes> slots;
    std::vector<float> scratch;
  };

  Work work() const { return {slots(static_cast<std::size_t>(visits_at_a_time())), scratch()}; }
  Offset visits_at_a_time() const {
    return static_cast<Offset>(
        std::clamp(most_drawn / std::max(select_.capacity(), std::size_t{1}), std::size_t{1}, ahead));
  }

  void make(const Run& run, Visits visits, Work& work, Progress& progress) {
    auto& [slots, scratch] = work;
    const std::size_t n = visits.size;
    for (std::size_t s = 0; s < n; ++s) draw(run, visits, s, slots[s]);
    for (std::size_t s = 0; s < std::min(n, prefetch_distance); ++s) prefetch(slots[s]);
    for (std::size_t s = 0; s < n && !run.watch.stopped(); ++s) {
      if (s + prefetch_distance < n) prefetch(slots[s + prefetch_distance]);
      solve(run, slots[s], scratch);
      if (!run.watch.stopped()) apply(slots[s], run.stretch);
      count(slots[s], progress);
    }
  }

  void look(Member me, const Run& run, Visits visits) {
    const auto [from, to] = me.share(visits.size);
    for (std::size_t s = from; s < to; ++s) draw(run, visits, s, batch_[s]);
    for (std::size_t s = from; s < std::min(to, from + prefetch_distance); ++s) prefetch(batch_[s]);
    for (std::size_t s = from; s < to; ++s) {
      poll(select_.capacity() * line_floats);  // a class with some features
      if (s + prefetch_distance < to) prefetch(batch_[s + prefetch_distance]);
      solve(run, batch_[s], scratch_[static_cast<std::size_t>(me.rank())]);
    }
  }

  void move(Member me, const Run& run, Visits visits) {
    // Shares of whole cache lines of classes.
    const auto lines = (static_cast<std::size_t>(problem_.n_classes) + line_floats - 1) / line_floats;
    const auto [first_line, last_line] = me.share(lines);
    const auto first = static_cast<Index>(first_line * line_floats);
    const ClassRange mine{first, static_cast<Index>(last_line * line_floats) - first};
    if (!problem_.adaptive) {
      run_with(settings_.isa, [&] {
        for (std::size_t s = 0; s < visits.size; ++s) apply_part<false>(batch_[s], mine, run.stretch);
      });
      return;
    }
    run_with(settings_.isa, [&] {
      for (std::size_t s = 0; s < visits.size; ++s) apply_part<true>(batch_[s], mine, run.stretch);
      for (std::size_t s = 0; s < visits.size; ++s) descend_part(batch_[s], mine, run.stretch);
    });
  }

  void account(Visits visits, Progress& progress) {
    for (std::size_t s = 0; s < visits.size; ++s) count(batch_[s], progress);
  }

  void follow(Member, Visits) {}

 private:
  static constexpr bool lists = !std::is_same_v<Classes, ClassRange>;
  // Visits whose classes are drawn ahead, and how many before its use the memory of a visit is asked for: about two
  // steps (microseconds) hide a miss in all caches.
  static constexpr std::size_t ahead = 64;
  static constexpr std::size_t prefetch_distance = 2;
  // Classes of the visits drawn ahead: with some hundred features each, a tenth of a second, in which nothing can end.
  static constexpr std::size_t most_drawn = 1 << 18;
  // Steps of the adaptive rule, which has moved a weight by up to three times as much: far beyond any score, and far
  // from the end of single precision.
  static constexpr double most_adaptive = 0x1p80;

  // Below 0: the point's label is in another block of classes.
  Index label(Index i) const { return problem_.labels[static_cast<std::size_t>(i)]; }
  double features_sq(Index i) const { return static_cast<double>(problem_.x_sq[static_cast<std::size_t>(i)]); }
  double weight(Index i) const {
    return problem_.weights.empty() ? 1.0 : problem_.weights[static_cast<std::size_t>(i)];
  }
  double intercept_sq() const { return problem_.model.intercept.empty() ? 0.0 : 1.0; }

  Slots<Classes> slots(std::size_t n) const {
    return Slots<Classes>(n, select_.capacity(), lists, Select::repeats, settings_.ridge > 0);
  }
  std::vector<float> scratch() const { return std::vector<float>(2 * select_.capacity()); }

  static void count(const Slot& slot, Progress& progress) {
    progress.loss += slot.move.loss;
    progress.class_updates += static_cast<std::int64_t>(slot.classes.size()) + slot.labelled;
  }

  void draw(const Run& run, Visits visits, std::size_t s, Slot& slot) const {
    const auto t = static_cast<Index>(visits.begin) + static_cast<Index>(s);
    const Index i = run.order[t];
    const Index first_of_batch = t - t % settings_.batch;
    const auto named_by = static_cast<std::uint64_t>(settings_.share_classes ? run.order[first_of_batch] : i);
    const Rng rng({settings_.seed, static_cast<std::uint64_t>(run.stretch.pass)}, settings_.first_point + named_by);
    slot.point = i;
    slot.labelled = label(i) >= 0;
    slot.batch = std::min(settings_.batch, static_cast<Index>(problem_.labels.size()) - first_of_batch);
    if (problem_.adaptive) slot.iteration = first_iteration(run.stretch) + t / settings_.batch;
    slot.classes =
        select_.draw(rng, i, std::span(&problem_.labels[static_cast<std::size_t>(i)], slot.labelled), slot.buffers());
  }

  void prefetch(const Slot& slot) const {
    const auto x = problem_.x.row(slot.point);
    if (slot.labelled) {
      problem_.model.rows.prefetch(x, slot.classes, label(slot.point));
    } else if (slot.classes.size() > 0) {
      problem_.model.rows.prefetch(x, slot.classes, slot.classes[0]);
    }
  }

  // The step of a slot at the current weights; leaves -p in the slot, ready to be added.
  void solve(const Run& run, Slot& slot, std::span<float> scratch) {
    const Stretch& stretch = run.stretch;
    const Index i = slot.point;
    const auto x = problem_.x.row(i);
    const std::size_t size = slot.classes.size();
    float label_score = 0;
    run_with(settings_.isa, [&] {
      problem_.model.scores(x, slot.classes, slot.scores);
      if (slot.labelled) label_score = problem_.model.score(x, label(i));
    });
    SampledPoint point{slot.scores.first(size),
                       slot.alpha.first(size),
                       static_cast<double>(label_score),
                       features_sq(i) + intercept_sq(),
                       stretch.eta,
                       stretch.eta_u,
                       stretch.pass,
                       slot.labelled ? select_.label_alpha(label(i)) : 0};
    point.labelled = slot.labelled;
    if (problem_.elsewhere) point.others = problem_.elsewhere->log_sums[static_cast<std::size_t>(i)];
    if (Select::repeats) point.times = slot.times.first(size);
    if (!problem_.local_scale.empty()) {
      point.local_scale = &problem_.local_scale[static_cast<std::size_t>(i)];
      point.key = {settings_.seed, static_cast<std::uint64_t>(stretch.pass)};
      point.item = first_local_item + settings_.first_point + static_cast<std::uint64_t>(i);
    }
    if (settings_.mean_of_batch) point.eta /= slot.batch;
    if (settings_.ridge > 0) {
      run_with(settings_.isa,
               [&] { ridge_.shrink(problem_, step_->shrinks_first(), select_.n_random(slot.classes), slot, point); });
    }

    // After the ridge, which is the visit's and not the point's: its sum over visits does not depend on weights.
    const double weight = this->weight(i);
    point.eta *= weight;
    const std::span<float> p = slot.moves.first(size);
    double u = problem_.u[static_cast<std::size_t>(i)];
    slot.move = step_->solve(settings_.isa, point, u, p, scratch.first(2 * size));
    if (!(slot.move.total * point.x_sq < runaway) || !fits_float(slot.move.total) || !fits_float(slot.move.label) ||
        !std::isfinite(u)) {
      run.watch.diverged(i);
      return;
    }
    if (select_.with_label) slot.move.loss = without_label(slot);
    slot.move.loss *= weight;
    if (std::isfinite(settings_.max_norm)) u = std::fmin(std::fmax(u, 0.0), settings_.u_max);
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

  // A move that a row can be given: divided by the row's scale, where rows have one. False for NaN.
  bool fits_float(double p) const {
    constexpr auto most = static_cast<double>(std::numeric_limits<float>::max());
    return std::fabs(p) <= (problem_.model.scale.empty() ? most : most * static_cast<double>(smallest_scale));
  }

  // `adaptively` is known where the code is compiled, so that the loops of plain steps stand alone.
  template <bool adaptively>
  void move_rows(const Slot& slot, const ClassLines& classes, std::span<float> moves, std::span<const float> shrinks,
                 const Stretch& stretch) {
    for_runs(classes, [&](ClassRange run, std::size_t c) {
      move_rows<adaptively>(slot, run, moves.subspan(c, run.size()),
                            shrinks.empty() ? shrinks : shrinks.subspan(c, run.size()), stretch);
    });
  }

  // Moves the rows `classes` by `moves` times x, then shrinks them.
  template <bool adaptively, class Some>
  void move_rows(const Slot& slot, const Some& classes, std::span<float> moves, std::span<const float> shrinks,
                 const Stretch& stretch) {
    const auto x = problem_.x.row(slot.point);
    if constexpr (adaptively) {
      move_adaptively(slot, x, classes, moves, stretch);
    } else {
      problem_.model.add(x, classes, moves);
    }
    if (!shrinks.empty()) problem_.model.shrink(classes, shrinks);
  }

  // Batches made before this pass.
  Offset first_iteration(const Stretch& stretch) const {
    const auto n = static_cast<Offset>(problem_.labels.size());
    return stretch.pass * ((n + settings_.batch - 1) / settings_.batch);
  }

  // The rate of an iteration: it falls as 1 / sqrt(iterations made), and by the factor `decay` now and then.
  float adaptive_rate(const Slot& slot, const Stretch& stretch) const {
    double rate = stretch.eta / std::sqrt(1.0 + static_cast<double>(slot.iteration));
    if (settings_.decay_every > 0) {
      const Offset falls = slot.iteration / settings_.decay_every - first_iteration(stretch) / settings_.decay_every;
      rate *= std::pow(settings_.decay, static_cast<double>(falls));
    }
    return static_cast<float>(std::fmin(rate, most_adaptive));
  }

  // The rule takes gradients of the summed loss, N / B times the sum over a batch: `moves` are eta times those of one
  // point's share of the mean, or of its share of the batch's.
  template <class Row, class Some>
  void move_adaptively(const Slot& slot, Row x, const Some& classes, std::span<float> moves, const Stretch& stretch) {
    Adaptive<Rows>& adaptive = problem_.adaptive.value();
    const auto n = static_cast<double>(problem_.labels.size());
    const double to_sum = n / (stretch.eta * (settings_.mean_of_batch ? 1 : slot.batch));
    constexpr double most = std::numeric_limits<float>::max();
    const float rate = adaptive_rate(slot, stretch);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      moves[c] = static_cast<float>(std::clamp(static_cast<double>(moves[c]) * to_sum, -most, most));
      if (problem_.model.intercept.empty() || moves[c] == 0) continue;
      const auto k = static_cast<std::size_t>(classes[c]);
      if (adaptive.gradients) {
        adaptive.intercept_gradients[k] += moves[c];
      } else {
        adapt(problem_.model.intercept[k], adaptive.intercept_squares[k], moves[c], rate);
      }
    }
    if (adaptive.gradients) {
      adaptive.gradients->add(x, classes, moves.first(classes.size()));
    } else {
      problem_.model.rows.add_adaptive(x, classes, moves.first(classes.size()), rate, adaptive.squares);
    }
  }

  // An adaptive step is one for all of a row's gradient: a label that was drawn, too, takes its own move along.
  void join_label(Slot& slot) const {
    for (std::size_t c = 0; c < slot.classes.size(); ++c) {
      if (slot.classes[c] != label(slot.point)) continue;
      slot.moves[c] += static_cast<float>(std::exchange(slot.move.label, 0.0));
      return;
    }
  }

  // Moves what a slot has touched of the classes `mine` by the batch's gradient, which is then 0 there.
  void descend_part(const Slot& slot, ClassRange mine, const Stretch& stretch) {
    Adaptive<Rows>& adaptive = problem_.adaptive.value();
    const float rate = adaptive_rate(slot, stretch);
    const auto descend = [&](ClassRange classes) {
      const ClassRange part = intersect(classes, mine);
      if (part.count == 0) return;
      if (!problem_.model.intercept.empty()) {
        for (auto k = static_cast<std::size_t>(part.begin); k < static_cast<std::size_t>(part.end()); ++k) {
          const float gradient = std::exchange(adaptive.intercept_gradients[k], 0.0F);
          adapt(problem_.model.intercept[k], adaptive.intercept_squares[k], gradient, rate);
        }
      }
      problem_.model.rows.descend_adaptive(problem_.x.row(slot.point), part, rate, adaptive.squares,
                                           *adaptive.gradients);
    };
    for_runs(slot.classes, [&](ClassRange run, std::size_t) { descend(run); });
    descend({label(slot.point), 1});
  }

  // Follows the norms of the rows that a slot is about to move and shrink.
  void grow(const Slot& slot, NormBall& ball) const {
    const bool ridge = settings_.ridge > 0, shrunk = ridge && step_->shrinks_first();
    const Index y = label(slot.point);
    const double x_sq = features_sq(slot.point);
    float z_y = problem_.model.score(problem_.x.row(slot.point), y);
    for (std::size_t c = 0; c < slot.classes.size(); ++c) {
      const float shrink = ridge ? slot.shrinks[c] : 1.0F;
      ball.grow(slot.classes[c], slot.scores[c], slot.moves[c], x_sq, shrink, shrunk);
      if (slot.classes[c] == y) z_y += slot.moves[c] * static_cast<float>(x_sq);
    }
    ball.grow(y, z_y, static_cast<float>(slot.move.label), x_sq, ridge ? slot.label_shrink : 1.0F, false);
  }

  void apply(Slot& slot, const Stretch& stretch) {
    const std::size_t size = slot.classes.size();
    const bool ridge = settings_.ridge > 0;
    std::optional<NormBall> ball;
    if (std::isfinite(settings_.max_norm)) {
      ball.emplace(problem_.model.intercept, settings_.norm_sq, settings_.max_norm);
      grow(slot, *ball);
    }
    const std::span<const float> shrinks = ridge ? slot.shrinks.first(size) : std::span<float>{};
    if (problem_.adaptive) {
      join_label(slot);
      run_with(settings_.isa, [&] {
        move_rows<true>(slot, slot.classes, slot.moves.first(size), shrinks, stretch);
        move_label<true>(slot, stretch);
      });
    } else {
      run_with(settings_.isa, [&] {
        move_rows<false>(slot, slot.classes, slot.moves.first(size), shrinks, stretch);
        if (slot.labelled) move_label<false>(slot, stretch);
      });
    }
    if (ball) {
      for (std::size_t c = 0; c < size; ++c) ball->project(slot.classes[c], problem_.model);
      ball->project(label(slot.point), problem_.model);
    }
  }

  template <bool adaptively>
  void move_label(Slot& slot, const Stretch& stretch) {
    float rise = static_cast<float>(slot.move.label);
    const std::span<const float> shrink(&slot.label_shrink, settings_.ridge > 0 ? 1 : 0);
    move_rows<adaptively>(slot, ClassRange{label(slot.point), 1}, std::span<float>(&rise, 1), shrink, stretch);
  }

  // The part of a slot that falls on the classes `mine`.
  template <bool adaptively>
  void apply_part(Slot& slot, ClassRange mine, const Stretch& stretch) {
    const bool ridge = settings_.ridge > 0;
    for_runs(slot.classes, [&](ClassRange run, std::size_t at) {
      const ClassRange part = intersect(run, mine);
      if (part.count == 0) return;
      const std::size_t c = at + static_cast<std::size_t>(part.begin - run.begin);
      move_rows<adaptively>(slot, part, slot.moves.subspan(c, part.size()),
                            ridge ? slot.shrinks.subspan(c, part.size()) : std::span<float>{}, stretch);
    });
    const Index y = label(slot.point);
    if (y >= mine.begin && y < mine.end()) move_label<adaptively>(slot, stretch);
  }

  Problem<Rows> problem_;
  Select select_;
  std::unique_ptr<const PointStep> step_;
  Settings settings_;
  Ridge ridge_;
  Slots<Classes> batch_;                     // where visits are made together
  std::vector<std::vector<float>> scratch_;  // of each thread, then
};

template <class Rows, class Select>
std::unique_ptr<Trainer> points_trainer(const Problem<Rows>& problem, Select select,
                                        std::unique_ptr<const PointStep> step, const Settings& settings) {
  using Policy = Points<Rows, Select>;
  return std::make_unique<Loop<Policy>>(Policy(problem, std::move(select), std::move(step), settings),
                                        problem.labels.size(), settings);
}

}  // namespace manyclass
