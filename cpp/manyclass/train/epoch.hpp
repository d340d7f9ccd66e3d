// The training loop: visit points, select classes, score, solve the step, move a few rows of W.
//
// Two ways to run it. `alone`: each thread makes whole visits one after the other; with one thread that is
// plain SGD, with several it is Hogwild, whose races on W are accepted (a lost update costs one step; scores
// are never torn, since a float is written at once). `in_batches`: the threads compute the steps of a batch
// at the same weights, then each applies all of them to its own part of the classes, in visit order: the
// result is the same for any number of threads.
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
#include "manyclass/step/point_step.hpp"
#include "manyclass/train/slots.hpp"
#include "manyclass/train/trainer.hpp"

#if defined(__SANITIZE_THREAD__)
#define MANYCLASS_RACES_ON_PURPOSE __attribute__((no_sanitize("thread")))
#else
#define MANYCLASS_RACES_ON_PURPOSE
#endif

namespace manyclass {

template <class Rows, class Select>
class Epoch final : public Trainer {
 public:
  Epoch(Problem<Rows> problem, Select select, std::unique_ptr<const PointStep> step, Settings settings)
      : problem_(problem), select_(select), step_(std::move(step)), settings_(settings) {}

  Progress run(const Stretch& stretch) override {
    order_visits(stretch.pass);
    diverged_ = -1;
    const bool batches = settings_.batch > 1 && !settings_.hogwild;
    const std::size_t in_flight = batches ? static_cast<std::size_t>(settings_.batch) : ahead;
    Progress progress;
    if (batches) {
      Slots<Classes> slots(in_flight, select_.capacity(), lists);
      progress.loss = stretch.loss;
      run_team(settings_.n_threads, [&](Member me) { in_batches(me, stretch, slots, progress); });
    } else {
      std::vector<Progress> parts(static_cast<std::size_t>(settings_.hogwild ? settings_.n_threads : 1));
      parts.front().loss = stretch.loss;
      next_ = stretch.first;
      run_team(static_cast<int>(parts.size()), [&](Member me) {
        Slots<Classes> slots(in_flight, select_.capacity(), lists);
        alone(stretch, slots, parts[static_cast<std::size_t>(me.rank())]);
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
  static constexpr bool lists = std::is_same_v<Classes, ClassList>;
  // Visits whose classes are drawn ahead, and how many before its use the memory of a visit is asked for:
  // about two steps (microseconds) hide a miss in all caches.
  static constexpr std::size_t ahead = 64;
  static constexpr std::size_t prefetch_distance = 2;

  void order_visits(int pass) {
    if (!settings_.shuffle || pass == ordered_pass_) return;
    order_.resize(problem_.labels.size());
    std::iota(order_.begin(), order_.end(), 0);
    shuffle(order_, Rng({settings_.seed, static_cast<std::uint64_t>(pass)}, visit_order_item));
    ordered_pass_ = pass;
  }

  Index visit(Index t) const { return settings_.shuffle ? order_[static_cast<std::size_t>(t)] : t; }
  Index label(Index i) const { return problem_.labels[static_cast<std::size_t>(i)]; }
  double x_sq(Index i) const {
    return static_cast<double>(problem_.x_sq[static_cast<std::size_t>(i)]) +
           (problem_.model.intercept.empty() ? 0.0 : 1.0);
  }

  void draw(Index t, const Stretch& stretch, std::size_t s, Slots<Classes>& slots) const {
    const Index i = visit(t);
    const Rng rng({settings_.seed, static_cast<std::uint64_t>(stretch.pass)}, static_cast<std::uint64_t>(i));
    slots.points[s] = i;
    slots.classes[s] = select_.draw(rng, label(i), slots.list(s), slots.alpha(s));
  }

  void prefetch(std::size_t s, const Slots<Classes>& slots) const {
    const Index i = slots.points[s];
    problem_.model.rows.prefetch(problem_.x.row(i), slots.classes[s], label(i));
  }

  // The step of slot s at the current weights; leaves -p in the slot, ready to be added.
  MANYCLASS_RACES_ON_PURPOSE void solve(std::size_t s, const Stretch& stretch, Slots<Classes>& slots,
                                        std::vector<float>& scores, std::vector<float>& scratch) {
    const Index i = slots.points[s];
    const auto x = problem_.x.row(i);
    const Classes& classes = slots.classes[s];
    const std::size_t size = classes.size();
    scores.resize(select_.capacity());
    scratch.resize(select_.capacity());
    float label_score = 0;
    run_with(settings_.isa, [&] {
      problem_.model.scores(x, classes, scores);
      label_score = problem_.model.score(x, label(i));
    });
    const std::span<float> p = slots.p(s).first(size);
    const SampledPoint point{std::span<const float>(scores).first(size),
                             slots.alpha(s).first(size),
                             static_cast<double>(label_score),
                             x_sq(i),
                             stretch.eta,
                             stretch.eta_u};
    double u = problem_.u[static_cast<std::size_t>(i)];
    const Move move = step_->solve(settings_.isa, point, u, p, std::span<float>(scratch).first(size));
    slots.moves[s] = move;
    if (!(move.total * point.x_sq < runaway) || !fits_float(move.total) || !fits_float(move.label) ||
        !std::isfinite(u)) {
      // The first of the batch by number, whichever thread saw it.
      for (Index seen = diverged_; (seen < 0 || i < seen) && !diverged_.compare_exchange_weak(seen, i);) {
      }
      return;
    }
    if (std::isfinite(settings_.u_max)) u = std::fmin(std::fmax(u, 0.0), settings_.u_max);
    problem_.u[static_cast<std::size_t>(i)] = u;
    for (float& p_k : p) p_k = -p_k;
  }

  static bool fits_float(double p) {
    return std::fabs(p) <= static_cast<double>(std::numeric_limits<float>::max());  // false for NaN
  }

  MANYCLASS_RACES_ON_PURPOSE void apply(std::size_t s, Slots<Classes>& slots, std::vector<float>& scores) {
    const Index i = slots.points[s];
    const auto x = problem_.x.row(i);
    const Classes& classes = slots.classes[s];
    const auto rise = static_cast<float>(slots.moves[s].label);
    if (std::isfinite(settings_.max_norm)) keep_in_ball(s, slots, scores);
    run_with(settings_.isa, [&] {
      problem_.model.add(x, classes, slots.p(s).first(classes.size()));
      problem_.model.add(x, label(i), rise);
    });
    if (std::isfinite(settings_.max_norm)) scale_into_ball(i, classes);
  }

  // The part of slot s that falls on the classes `mine`.
  void apply_part(std::size_t s, Slots<Classes>& slots, ClassRange mine) {
    const Index i = slots.points[s];
    const auto x = problem_.x.row(i);
    const Classes& classes = slots.classes[s];
    const std::span<float> p = slots.p(s);
    if constexpr (lists) {
      for (std::size_t c = 0; c < classes.size(); ++c) {
        if (owns(mine, classes[c])) problem_.model.add(x, classes[c], p[c]);
      }
    } else {
      const ClassRange part = intersect(classes, mine);
      const auto offset = static_cast<std::size_t>(part.begin - classes.begin);
      if (part.count > 0) problem_.model.add(x, part, p.subspan(offset, part.size()));
    }
    if (owns(mine, label(i))) problem_.model.add(x, label(i), static_cast<float>(slots.moves[s].label));
  }

  static bool owns(ClassRange mine, Index k) { return k >= mine.begin && k < mine.end(); }

  // ||w + a x||^2 = ||w||^2 + 2 a w.x + a^2 ||x||^2, all known before the move.
  void keep_in_ball(std::size_t s, Slots<Classes>& slots, const std::vector<float>& scores) {
    const Index i = slots.points[s];
    const double features_sq = static_cast<double>(problem_.x_sq[static_cast<std::size_t>(i)]);
    const auto grow = [&](Index k, double score, double a) {
      const auto at = static_cast<std::size_t>(k);
      const double b = problem_.model.intercept.empty() ? 0 : static_cast<double>(problem_.model.intercept[at]);
      double& norm_sq = settings_.norm_sq[at];
      norm_sq = std::fmax(norm_sq + a * (2 * (score - b) + a * features_sq), 0.0);
    };
    const Classes& classes = slots.classes[s];
    const std::span<const float> p = slots.p(s);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (p[c] != 0) grow(classes[c], static_cast<double>(scores[c]), static_cast<double>(p[c]));
    }
    const double label_score = static_cast<double>(problem_.model.score(problem_.x.row(i), label(i)));
    grow(label(i), label_score, slots.moves[s].label);
  }

  void scale_into_ball(Index i, const Classes& classes) {
    const double most = settings_.max_norm * settings_.max_norm;
    const auto shrink = [&](Index k) {
      const auto at = static_cast<std::size_t>(k);
      double& norm_sq = settings_.norm_sq[at];
      if (norm_sq <= most) return;
      problem_.model.shrink(k, static_cast<float>(std::sqrt(most / norm_sq)));
      norm_sq = most;
    };
    for (std::size_t c = 0; c < classes.size(); ++c) shrink(classes[c]);
    shrink(label(i));
  }

  void alone(const Stretch& stretch, Slots<Classes>& slots, Progress& part) {
    Progress mine = part;  // on this thread's stack: parts share cache lines
    std::vector<float> scores, scratch;
    while (diverged_ < 0) {
      const Offset taken = next_.fetch_add(static_cast<Offset>(ahead));
      if (taken >= stretch.last) break;
      const auto begin = static_cast<Index>(taken);
      const auto n = static_cast<std::size_t>(std::min<Index>(static_cast<Index>(ahead), stretch.last - begin));
      for (std::size_t s = 0; s < n; ++s) draw(begin + static_cast<Index>(s), stretch, s, slots);
      for (std::size_t s = 0; s < std::min(n, prefetch_distance); ++s) prefetch(s, slots);
      for (std::size_t s = 0; s < n && diverged_ < 0; ++s) {
        if (s + prefetch_distance < n) prefetch(s + prefetch_distance, slots);
        solve(s, stretch, slots, scores, scratch);
        if (diverged_ < 0) apply(s, slots, scores);
        mine.loss += slots.moves[s].loss;
        mine.class_updates += static_cast<std::int64_t>(slots.classes[s].size()) + 1;
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
    std::vector<float> scores, scratch;

    for (Index begin = stretch.first; begin < stretch.last; begin += settings_.batch) {
      const auto n = static_cast<std::size_t>(std::min(settings_.batch, stretch.last - begin));
      const auto [from, to] = me.share(n);
      for (std::size_t s = from; s < to; ++s) draw(begin + static_cast<Index>(s), stretch, s, slots);
      for (std::size_t s = from; s < std::min(to, from + prefetch_distance); ++s) prefetch(s, slots);
      for (std::size_t s = from; s < to; ++s) {
        if (s + prefetch_distance < to) prefetch(s + prefetch_distance, slots);
        solve(s, stretch, slots, scores, scratch);
      }
      me.barrier();
      if (diverged_ >= 0) break;  // no thread writes it between the barriers, so all see the same
      run_with(settings_.isa, [&] {
        for (std::size_t s = 0; s < n; ++s) apply_part(s, slots, mine);
      });
      if (me.rank() == 0) {
        for (std::size_t s = 0; s < n; ++s) {
          progress.loss += slots.moves[s].loss;
          progress.class_updates += static_cast<std::int64_t>(slots.classes[s].size()) + 1;
        }
      }
      me.barrier();
    }
  }

  Problem<Rows> problem_;
  Select select_;
  std::unique_ptr<const PointStep> step_;
  Settings settings_;
  std::vector<Index> order_;
  int ordered_pass_ = -1;
  std::atomic<Offset> next_{0};
  std::atomic<Index> diverged_{-1};
};

}  // namespace manyclass
