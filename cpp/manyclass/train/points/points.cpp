// See points.hpp.
#include "manyclass/train/points/points.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/train/common/loop.hpp"
#include "manyclass/train/points/adaptive_steps.hpp"
#include "manyclass/train/points/class_shares.hpp"
#include "manyclass/train/points/first_u.hpp"
#include "manyclass/train/points/norm_ball.hpp"
#include "manyclass/train/points/point_rows.hpp"
#include "manyclass/train/points/ridge.hpp"
#include "manyclass/weights/class_rows.hpp"
#include "manyclass/weights/feature_rows.hpp"

namespace manyclass {

namespace {

template <class Rows, class Classes>
class Points {
  using Slot = typename Slots<Classes>::Slot;
  using Asked = PointRows<Rows, Classes>;

 public:
  Points(Problem<Rows> problem, SelectionOf<Classes> select, std::unique_ptr<const PointStep> step,
         const Settings& settings)
      : problem_(problem),
        rows_(problem, settings),
        select_(std::move(select)),
        step_(std::move(step)),
        settings_(settings) {
    if (problem_.curvature) {
      longest_row_ = 1;
      for (Index i = 0; i < problem_.x.n_rows(); ++i)
        longest_row_ = std::max(longest_row_, n_values(problem_.x.row(i)));
    }
    if (settings_.ridge > 0) ridge_ = Ridge(problem_, select_, settings_.ridge);
    if (settings_.batch > 1 && !settings_.hogwild) {
      batches_[0] = slots(static_cast<std::size_t>(settings_.batch));
      if (settings_.n_threads > 1) {
        batches_[1] = slots(static_cast<std::size_t>(settings_.batch));
        shares_ = ClassShares(problem_, select_);
      }
      scratch_.assign(static_cast<std::size_t>(settings_.n_threads), scratch());
      // Rows that move early would be seen by the exact sums of points that come later in the batch.
      if (Asked::moves_early && !problem_.adaptive && !settings_.exact_first_u) own_ = OwnRows(problem_.n_classes);
    }
  }

  struct Work {
    Slots<Classes> slots;
    std::vector<float> scratch;
  };

  Work work() const { return {slots(static_cast<std::size_t>(visits_at_a_time())), scratch()}; }
  // Before threads race.
  void begin_race() { problem_.model.fold(smallest_at_start); }

  Offset visits_at_a_time() const {
    return static_cast<Offset>(
        std::clamp(most_drawn / std::max(select_.capacity(), std::size_t{1}), std::size_t{1}, ahead));
  }

  void make(const Run& run, Visits visits, Work& work, Progress& progress) {
    auto& [slots, scratch] = work;
    const std::size_t n = visits.size;
    for (std::size_t s = 0; s < n; ++s) draw(run, visits, s, slots[s]);
    for (std::size_t s = 0; s < std::min(n, prefetch_distance); ++s) rows_.prefetch(slots[s]);
    for (std::size_t s = 0; s < n && !run.watch.stopped(); ++s) {
      if (s + prefetch_distance < n) rows_.prefetch(slots[s + prefetch_distance]);
      rows_.score(slots[s]);
      solve(run, slots[s], scratch);
      if (!run.watch.stopped()) apply(slots[s], run.stretch);
      count(slots[s], progress);
    }
  }

  void draw(Member me, const Run& run, Visits visits) {
    const auto [from, to] = me.share(visits.size);
    for (std::size_t s = from; s < to; ++s) draw(run, visits, s, batch(visits)[s]);
  }

  void score(Member me, const Run&, Visits visits) {
    Slots<Classes>& slots = batch(visits);
    const ClassRange mine = shares_.of(me);
    if constexpr (Asked::reads_in_common) {
      if (select_.all_classes()) return rows_.score_in_common(slots, visits.size, mine);
    }
    for (std::size_t s = 0; s < std::min(visits.size, prefetch_distance); ++s) rows_.prefetch_part(slots[s], mine);
    for (std::size_t s = 0; s < visits.size; ++s) {
      poll(select_.capacity() * line_floats);  // a class with some features
      if (s + prefetch_distance < visits.size) rows_.prefetch_part(slots[s + prefetch_distance], mine);
      run_with(settings_.isa, [&](Isa isa) { rows_.score_part(slots[s], mine, isa); });
    }
  }

  void look(Member me, const Run& run, Visits visits) {
    Slots<Classes>& slots = batch(visits);
    const std::span<float> scratch = scratch_[static_cast<std::size_t>(me.rank())];
    const auto [from, to] = me.share(visits.size);
    if (me.size() > 1) {
      for (std::size_t s = from; s < to; ++s) {
        poll(select_.capacity() * line_floats);
        solve(run, slots[s], scratch);
      }
      return;
    }
    for (std::size_t s = 0; s < to; ++s) draw(run, visits, s, slots[s]);
    const bool in_common = Asked::reads_in_common && select_.all_classes();
    if constexpr (Asked::reads_in_common) {
      if (in_common) rows_.score_in_common(slots, to, {0, problem_.n_classes});
    }
    for (std::size_t s = 0; s < std::min(to, prefetch_distance); ++s) rows_.prefetch(slots[s]);
    if constexpr (Asked::moves_early) {
      if (!own_.empty()) {
        for (std::size_t s = 0; s < to; ++s) own_.note(slots[s].classes, label(slots[s].point));
      }
    }
    // Alone, while the processor waits for one point's rows it solves for another.
    for (std::size_t s = 0; s < to; ++s) {
      poll(select_.capacity() * line_floats);
      if (s + prefetch_distance < to) rows_.prefetch(slots[s + prefetch_distance]);
      if (!in_common) rows_.score(slots[s]);
      solve(run, slots[s], scratch);
      if constexpr (Asked::moves_early) {
        if (!own_.empty() && !run.watch.stopped())
          slots[s].moved = !rows_.move_own(own_, slots[s], {0, problem_.n_classes});
      }
    }
    if constexpr (Asked::moves_early) {
      if (!own_.empty()) {
        for (std::size_t s = 0; s < to; ++s) own_.forget(slots[s].classes, label(slots[s].point));
      }
    }
  }

  // Moves what one thread alone has moved in look() before the first point that diverged.
  void leave(Member me, const Run&, Visits visits) {
    if constexpr (Asked::moves_early) {
      if (me.size() == 1 || own_.empty()) return;
      Slots<Classes>& slots = batch(visits);
      OwnRows own(problem_.n_classes);
      for (std::size_t s = 0; s < visits.size; ++s) own.note(slots[s].classes, label(slots[s].point));
      for (std::size_t s = 0; s < visits.size && !slots[s].diverged; ++s) rows_.move_own(own, slots[s], shares_.of(me));
    }
  }

  void move(Member me, const Run& run, Visits visits) {
    Slots<Classes>& slots = batch(visits);
    const ClassRange mine = me.size() > 1 ? shares_.of(me) : ClassRange{0, problem_.n_classes};
    if (problem_.curvature) {
      for (std::size_t s = 0; s < visits.size; ++s) learn(slots[s], mine);
    }
    if (!problem_.adaptive) {
      if constexpr (Asked::reads_in_common) {
        if (select_.all_classes() && problem_.model.scale.empty())
          return rows_.move_in_common(slots, visits.size, mine);
      }
      run_with(settings_.isa, [&](Isa isa) {
        for (std::size_t s = 0; s < visits.size; ++s) {
          if (!slots[s].moved) rows_.template apply_part<false>(slots[s], mine, run.stretch, isa);
        }
      });
      return;
    }
    run_with<widest_adaptive>(settings_.isa, [&](Isa isa) {
      for (std::size_t s = 0; s < visits.size; ++s) rows_.template apply_part<true>(slots[s], mine, run.stretch, isa);
      for (std::size_t s = 0; s < visits.size; ++s) rows_.descend_part(slots[s], mine, run.stretch);
    });
  }

  void account(Visits visits, Progress& progress) {
    for (std::size_t s = 0; s < visits.size; ++s) count(batch(visits)[s], progress);
  }

 private:
  // Visits whose classes are drawn ahead, and how many before its use the memory of a visit is asked for: about two
  // steps (microseconds) hide a miss in all caches.
  static constexpr std::size_t ahead = 64;
  static constexpr std::size_t prefetch_distance = 2;
  // Adaptive steps of sparse rows gain nothing by AVX-512 (bench/figures/isa.md).
  static constexpr Isa widest_adaptive = Asked::whole_rows ? Isa::avx512 : Isa::avx2;
  // Classes of the visits drawn ahead: with some hundred features each, a tenth of a second, in which nothing can end.
  static constexpr std::size_t most_drawn = 1 << 18;

  // Below 0: the point's label is in another block of classes.
  Index label(Index i) const { return problem_.labels[static_cast<std::size_t>(i)]; }
  double features_sq(Index i) const { return static_cast<double>(problem_.x_sq[static_cast<std::size_t>(i)]); }
  double weight(Index i) const {
    return problem_.weights.empty() ? 1.0 : problem_.weights[static_cast<std::size_t>(i)];
  }
  double intercept_sq() const { return problem_.model.intercept.empty() ? 0.0 : 1.0; }

  Slots<Classes> slots(std::size_t n) const {
    return Slots<Classes>(n, select_.capacity(), lists<Classes>, select_.repeats, settings_.ridge > 0, longest_row_);
  }
  std::vector<float> scratch() const {
    const std::size_t all = settings_.exact_first_u ? static_cast<std::size_t>(problem_.n_classes) : 0;
    return std::vector<float>(std::max(2 * select_.capacity(), all));
  }

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
    slot.moved = slot.diverged = false;
    slot.batch = std::min(settings_.batch, static_cast<Index>(problem_.labels.size()) - first_of_batch);
    if (problem_.adaptive) slot.iteration = rows_.adaptive().first_iteration(run.stretch) + t / settings_.batch;
    slot.eta = run.stretch.eta;
    slot.x_sq = features_sq(i);
    if (problem_.curvature) {
      const double passes = run.stretch.pass + static_cast<double>(t) / static_cast<double>(problem_.labels.size());
      problem_.curvature->begin(problem_.x.row(i), run.stretch.eta, passes, intercept_sq(), slot);
    }
    slot.classes =
        select_.draw(rng, i, std::span(&problem_.labels[static_cast<std::size_t>(i)], slot.labelled), slot.buffers());
  }

  Slots<Classes>& batch(Visits visits) {
    const bool second = settings_.n_threads > 1 && visits.begin / settings_.batch % 2 == 1;
    return batches_[second ? 1 : 0];
  }

  // The step of a slot by its scores; leaves -p in the slot, ready to be added.
  void solve(const Run& run, Slot& slot, std::span<float> scratch) {
    const Stretch& stretch = run.stretch;
    const Index i = slot.point;
    const std::size_t size = slot.classes.size();
    SampledPoint point{
        slot.scores.first(size),
        slot.alpha.first(size),
        slot.labelled ? static_cast<double>(slot.label_score) : 0,
        slot.x_sq + intercept_sq(),
        slot.eta,
        problem_.curvature ? stretch.eta_u / Curvature::falls_of_u(stretch.eta / slot.eta, size) : stretch.eta_u,
        stretch.pass,
        slot.labelled ? select_.label_alpha(label(i)) : 0};
    point.labelled = slot.labelled;
    if (problem_.elsewhere) point.others = problem_.elsewhere->log_sums[static_cast<std::size_t>(i)];
    if (select_.repeats) point.times = slot.times.first(size);
    if (!problem_.local_scale.empty()) {
      point.local_scale = &problem_.local_scale[static_cast<std::size_t>(i)];
      point.key = {settings_.seed, static_cast<std::uint64_t>(stretch.pass)};
      point.item = first_local_item + settings_.first_point + static_cast<std::uint64_t>(i);
    }
    if (settings_.mean_of_batch) point.eta /= slot.batch;
    if (problem_.curvature || settings_.ridge > 0) {
      run_with(settings_.isa, [&] {
        if (problem_.curvature) problem_.curvature->write_factors(slot, label(i));
        if (settings_.ridge > 0) {
          ridge_.shrink(problem_, step_->shrinks_first(), select_.n_random(slot.classes), slot, point);
        } else {
          Curvature::write_lengths(slot, point);
        }
      });
    }
    // After the ridge, which is the visit's and not the point's: its sum over visits does not depend on weights.
    const double weight = this->weight(i);
    point.eta *= weight;
    const std::span<float> p = slot.moves.first(size);
    double u = problem_.u[static_cast<std::size_t>(i)];
    const bool first = std::isnan(u);
    if (first) u = first_u(i, point, scratch);
    const double first_log_sum = u - settings_.carry * point.label_score;
    slot.move = step_->solve(settings_.isa, point, u, p, scratch.first(2 * size));
    if (!(slot.move.total * point.x_sq < runaway) || !fits_float(slot.move.total) || !fits_float(slot.move.label) ||
        !std::isfinite(u)) {
      run.watch.diverged(i);
      slot.diverged = true;
      return;
    }
    if (problem_.curvature) {
      const double log_sum = first && settings_.exact_first_u ? first_log_sum : slot.move.loss;
      run_with(settings_.isa, [&] { Curvature::end(slot, point, log_sum, weight); });
    }
    if (select_.with_label) slot.move.loss = without_label(slot);
    slot.move.loss *= weight;
    if (std::isfinite(settings_.max_norm)) u = std::fmin(std::fmax(u, 0.0), settings_.u_max);
    problem_.u[static_cast<std::size_t>(i)] = u;
    for (float& p_k : p) p_k = -p_k;
  }

  // What a point carries at its first visit.
  double first_u(Index i, SampledPoint& point, std::span<float> scratch) const {
    const double carried = settings_.carry * point.label_score;
    if (!settings_.exact_first_u) {
      double drawn = 0;
      run_with(settings_.isa, [&] { drawn = drawn_log_sum(point, scratch.first(point.size())); });
      return drawn + carried;
    }
    point.visits = visits_of_exact_u;
    const auto n_classes = static_cast<std::size_t>(problem_.n_classes);
    return log_normalizer_of(problem_, i, settings_.isa, scratch.first(n_classes)) - point.label_score + carried;
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

  void learn(const Slot& slot, ClassRange mine) const { problem_.curvature->learn(slot, label(slot.point), mine); }

  void apply(Slot& slot, const Stretch& stretch) {
    if (problem_.curvature) learn(slot, {0, problem_.n_classes});
    const std::size_t size = slot.classes.size();
    const bool ridge = settings_.ridge > 0;
    std::optional<NormBall> ball;
    if (std::isfinite(settings_.max_norm)) {
      ball.emplace(problem_.model.intercept, settings_.norm_sq, settings_.max_norm);
      const float z_y = problem_.model.score(problem_.x.row(slot.point), label(slot.point));
      ball->grow(slot, label(slot.point), z_y, features_sq(slot.point), ridge, ridge && step_->shrinks_first());
    }
    const std::span<const float> shrinks = ridge ? slot.shrinks.first(size) : std::span<float>{};
    if (problem_.adaptive) {
      AdaptiveSteps<Rows>::join_label(slot, label(slot.point));
      run_with<widest_adaptive>(settings_.isa, [&](Isa isa) {
        rows_.template move_rows<true>(slot, slot.classes, slot.moves.first(size), shrinks, stretch, isa);
        rows_.template move_label<true>(slot, stretch, isa);
      });
    } else {
      run_with(settings_.isa, [&](Isa isa) {
        rows_.template move_rows<false>(slot, slot.classes, slot.moves.first(size), shrinks, stretch, isa);
        if (slot.labelled) rows_.template move_label<false>(slot, stretch, isa);
      });
    }
    if (ball) {
      for (std::size_t c = 0; c < size; ++c) ball->project(slot.classes[c], problem_.model);
      ball->project(label(slot.point), problem_.model);
    }
  }

  Problem<Rows> problem_;
  Asked rows_;
  SelectionOf<Classes> select_;
  std::unique_ptr<const PointStep> step_;
  Settings settings_;
  Ridge ridge_;
  std::array<Slots<Classes>, 2> batches_;    // where visits are made together: of every other batch, for a team
  ClassShares shares_;                       // of a team's members
  std::size_t longest_row_ = 0;              // stored values of a row of x, where weights do not move along x itself
  std::vector<std::vector<float>> scratch_;  // of each thread, then
  OwnRows own_;                              // where rows that are a visit's own are moved at once; else empty
};

}  // namespace

template <class Rows, class Classes>
std::unique_ptr<Trainer> points_trainer(const Problem<Rows>& problem, SelectionOf<Classes> select,
                                        std::unique_ptr<const PointStep> step, const Settings& settings) {
  using Policy = Points<Rows, Classes>;
  return std::make_unique<Loop<Policy>>(Policy(problem, std::move(select), std::move(step), settings),
                                        problem.labels.size(), settings);
}

#define MANYCLASS_INSTANTIATE(Rows, Classes)                                                          \
  template std::unique_ptr<Trainer> points_trainer(const Problem<Rows<float>>&, SelectionOf<Classes>, \
                                                   std::unique_ptr<const PointStep>, const Settings&);

MANYCLASS_INSTANTIATE(FeatureRows, ClassRange)
MANYCLASS_INSTANTIATE(FeatureRows, ClassLines)
MANYCLASS_INSTANTIATE(FeatureRows, ClassList)
MANYCLASS_INSTANTIATE(ClassRows, ClassRange)
MANYCLASS_INSTANTIATE(ClassRows, ClassLines)
MANYCLASS_INSTANTIATE(ClassRows, ClassList)
#undef MANYCLASS_INSTANTIATE

}  // namespace manyclass
