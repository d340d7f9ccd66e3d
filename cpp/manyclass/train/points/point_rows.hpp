// What visits to points ask of the rows of W: memory ahead of use, scores, and moves.
//
// Of a batch a member of a team scores and moves those of its own part of the classes, `mine`.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "manyclass/train/points/adaptive_steps.hpp"
#include "manyclass/train/points/common_rows.hpp"
#include "manyclass/train/points/own_rows.hpp"
#include "manyclass/train/points/slots.hpp"

namespace manyclass {

template <class Rows, class Classes>
class PointRows {
  using Slot = typename Slots<Classes>::Slot;

 public:
  // Whether rows of W are read whole. Then: whether points of a batch that have all classes in common are scored and
  // moved together, a row being read once for several; or whether rows of lists may be moved before the batch ends
  // (own_rows.hpp).
  static constexpr bool whole_rows = std::is_same_v<Rows, ClassRows<typename Rows::Weight>>;
  static constexpr bool reads_in_common = whole_rows && std::is_same_v<Classes, ClassRange>;
  static constexpr bool moves_early = whole_rows && std::is_same_v<Classes, ClassList>;

  PointRows(const Problem<Rows>& problem, const Settings& settings) : problem_(problem), settings_(settings) {}

  AdaptiveSteps<Rows> adaptive() const { return AdaptiveSteps<Rows>(problem_, settings_); }

  void prefetch(const Slot& slot) const {
    const auto x = problem_.x.row(slot.point);
    if (slot.labelled) {
      problem_.model.rows.prefetch(x, slot.classes, label(slot.point));
    } else if (slot.classes.size() > 0) {
      problem_.model.rows.prefetch(x, slot.classes, slot.classes[0]);
    }
  }

  // Scores of some of a slot's classes. Rows of W that are read whole are so several at a time.
  template <class Some>
  void score_some(const Slot& slot, const Some& classes, std::span<float> z, [[maybe_unused]] Isa isa) const {
    const auto x = problem_.x.row(slot.point);
    if constexpr (whole_rows) {
      const float* const row = x.data();
      problem_.model.rows.scores(std::span<const float* const>(&row, 1), classes, isa, z);
      problem_.model.finish(classes, z);
    } else {
      problem_.model.scores(x, classes, z);
    }
  }

  void score(Slot& slot) const {
    const auto x = problem_.x.row(slot.point);
    run_with(settings_.isa, [&](Isa isa) {
      score_some(slot, slot.classes, slot.scores, isa);
      if (slot.labelled) slot.label_score = problem_.model.score(x, label(slot.point));
    });
  }

  // Whether a slot's label is one of the classes `mine`.
  bool label_in(const Slot& slot, ClassRange mine) const {
    const Index y = label(slot.point);
    return y >= mine.begin && y < mine.end();
  }

  void prefetch_part(const Slot& slot, ClassRange mine) const {
    const auto x = problem_.x.row(slot.point);
    bool for_label = label_in(slot, mine);
    for_parts(slot.classes, mine, [&](const auto& part, std::size_t) {
      problem_.model.rows.prefetch(x, part, for_label ? label(slot.point) : part[0]);
      for_label = false;
    });
    if (for_label) problem_.model.rows.prefetch(x, ClassRange{}, label(slot.point));
  }

  // The scores of a slot's classes that are among the classes `mine`: the same bits as those of all of them.
  void score_part(Slot& slot, ClassRange mine, Isa isa) const {
    const auto x = problem_.x.row(slot.point);
    for_parts(slot.classes, mine, [&](const auto& part, std::size_t c) {
      score_some(slot, part, slot.scores.subspan(c, part.size()), isa);
    });
    if (label_in(slot, mine)) slot.label_score = problem_.model.score(x, label(slot.point));
  }

  void score_in_common(Slots<Classes>& slots, std::size_t n, ClassRange classes) const {
    const ClassRange mine = intersect(classes, {0, problem_.n_classes});
    const auto begin = static_cast<std::size_t>(mine.begin);
    score_common(
        problem_.model, problem_.x, mine, n, settings_.isa, [&](std::size_t s) { return slots[s].point; },
        [&](std::size_t s) { return slots[s].scores.subspan(begin, mine.size()); });
    for (std::size_t s = 0; s < n; ++s) {
      Slot& slot = slots[s];
      run_with(settings_.isa, [&] {
        if (label_in(slot, mine))
          slot.label_score = problem_.model.score(problem_.x.row(slot.point), label(slot.point));
      });
    }
  }

  // `adaptively` is known where the code is compiled, so that the loops of plain steps stand alone.
  template <bool adaptively>
  void move_rows(const Slot& slot, const ClassLines& classes, std::span<float> moves, std::span<const float> shrinks,
                 const Stretch& stretch, Isa isa) {
    for_runs(classes, [&](ClassRange run, std::size_t c) {
      move_rows<adaptively>(slot, run, moves.subspan(c, run.size()),
                            shrinks.empty() ? shrinks : shrinks.subspan(c, run.size()), stretch, isa);
    });
  }

  // Moves the rows `classes` by `moves` times x, or what weights move along in its place, then shrinks them.
  template <bool adaptively, class Some>
  void move_rows(const Slot& slot, const Some& classes, std::span<float> moves, std::span<const float> shrinks,
                 const Stretch& stretch, Isa isa) {
    const auto x = moved_along(slot);
    if constexpr (adaptively) {
      adaptive().move(slot, x, classes, moves, stretch, isa);
    } else {
      problem_.model.add(x, classes, moves, isa);
    }
    if (!shrinks.empty()) problem_.model.shrink(classes, shrinks);
  }

  template <bool adaptively>
  void move_label(Slot& slot, const Stretch& stretch, Isa isa) {
    float rise = static_cast<float>(slot.move.label);
    const std::span<const float> shrink(&slot.label_shrink, settings_.ridge > 0 ? 1 : 0);
    move_rows<adaptively>(slot, ClassRange{label(slot.point), 1}, std::span<float>(&rise, 1), shrink, stretch, isa);
  }

  // Moves those of a slot's rows `mine` that no other visit of its batch touches; returns whether there are others.
  bool move_own(const OwnRows& own, Slot& slot, ClassRange mine) {
    bool others = false;
    run_with(settings_.isa, [&](Isa isa) {
      others = own.move(problem_.model, moved_along(slot), slot, label(slot.point), mine, isa);
    });
    return others;
  }

  // Moves all of `classes` by n slots; the rows have no scale, and a label's two moves become one.
  void move_in_common(Slots<Classes>& slots, std::size_t n, ClassRange classes) {
    const ClassRange mine = intersect(classes, {0, problem_.n_classes});
    for (std::size_t s = 0; s < n; ++s) {
      if (!label_in(slots[s], mine)) continue;
      slots[s].moves[static_cast<std::size_t>(label(slots[s].point))] +=
          static_cast<float>(std::exchange(slots[s].move.label, 0.0));
    }
    move_common(
        problem_.model, mine, n, settings_.isa, [&](std::size_t s) { return moved_along(slots[s]); },
        [&](std::size_t s) { return slots[s].moves.subspan(static_cast<std::size_t>(mine.begin), mine.size()); });
  }

  // The part of a slot that falls on the classes `mine`.
  template <bool adaptively>
  void apply_part(Slot& slot, ClassRange mine, const Stretch& stretch, Isa isa) {
    const bool ridge = settings_.ridge > 0;
    for_parts(slot.classes, mine, [&](const auto& part, std::size_t c) {
      move_rows<adaptively>(slot, part, slot.moves.subspan(c, part.size()),
                            ridge ? slot.shrinks.subspan(c, part.size()) : std::span<float>{}, stretch, isa);
    });
    if (label_in(slot, mine)) move_label<adaptively>(slot, stretch, isa);
  }

  // Moves what a slot has touched of the classes `mine` by the batch's gradient.
  void descend_part(const Slot& slot, ClassRange mine, const Stretch& stretch) {
    const auto x = problem_.x.row(slot.point);
    for_parts(slot.classes, mine, [&](const auto& part, std::size_t) {
      for_runs(part, [&](ClassRange run, std::size_t) { adaptive().descend(slot, x, run, stretch); });
    });
    if (label_in(slot, mine)) adaptive().descend(slot, x, ClassRange{label(slot.point), 1}, stretch);
  }

 private:
  // Below 0: the point's label is in another block of classes.
  Index label(Index i) const { return problem_.labels[static_cast<std::size_t>(i)]; }

  auto moved_along(const Slot& slot) const {
    const auto x = problem_.x.row(slot.point);
    return problem_.curvature ? with_values(x, slot.x_moved) : x;
  }

  Problem<Rows> problem_;
  Settings settings_;
};

}  // namespace manyclass
