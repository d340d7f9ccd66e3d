// See pairs.hpp.
#include "manyclass/train/pairs/pairs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "manyclass/train/common/loop.hpp"
#include "manyclass/train/common/ridge_turns.hpp"

namespace manyclass {

namespace {

// What a visit moves: listed classes, whose gradients are not 0. A class that is not listed moves as UnmetClasses says.
struct Moves {
  std::vector<Index> classes;
  std::vector<float> g;        // of the score, and so of each weight but for the feature's value
  std::vector<float> of_bias;  // of the intercept, beside what it has without being met
  std::size_t n = 0;           // of them: the lists only grow
  bool are_of_all = false;     // all classes count as met: g is that of all, in their order
  double of_unmet = 0;         // what the visit adds to the gradients of all intercepts: a_t of UnmetClasses
  double loss = 0;

  std::span<Index> ids() { return std::span(classes).first(n); }
  std::span<const Index> ids() const { return std::span(classes).first(n); }
};

template <class T>
std::span<T> first_of(std::vector<T>& list, std::size_t n) {
  if (list.size() < n) list.resize(n);
  return std::span(list).first(n);
}

// Rounds what is smaller than `step` to 0 or to it: g is kept, as `step`, with probability |g| / step.
//
// One uniform number u is drawn for a point, and class k takes the fraction of u + k / golden ratio. Each of them is
// uniform, so that each rounding is unbiased, and a loop over classes is vectorised.
class Rounding {
 public:
  Rounding(float step, Rng rng) : step_(step), first_(static_cast<std::uint32_t>(rng.next() >> 32)) {}

  template <class Classes>  // ClassRange or ClassList
  void round(const Classes& classes, std::span<float> g) const {
    constexpr std::uint32_t weyl = 0x9e3779b9U;  // 2^32 / golden ratio
    for (std::size_t c = 0; c < g.size(); ++c) {
      const std::uint32_t word = first_ + static_cast<std::uint32_t>(classes[c]) * weyl;
      const float threshold = static_cast<float>(static_cast<std::int32_t>(word >> 8)) * (0x1p-24F * step_);
      const float size = std::fabs(g[c]);
      const float rounded = size > threshold ? std::copysign(step_, g[c]) : 0.0F;
      g[c] = size < step_ ? rounded : g[c];
    }
  }

 private:
  float step_;
  std::uint32_t first_;
};

// A visit's lists are short, and much of its work is done one number at a time. On Intel's Xeons vectors of 64 bytes
// make it 4 to 11 % slower than those of 32, small data or large (bench/figures/isa.md); on AMD's they gained 6 %.
Settings with_vectors_of_32_bytes(Settings settings) {
  settings.isa = std::min(settings.isa, Isa::avx2);
  return settings;
}

// The policy of the loop.
class PairsPolicy {
 public:
  // What a thread needs: a number for each class, of which a visit leaves none behind, and lists of those that it
  // meets.
  struct Scratch {
    std::vector<float> sums;    // no_sum
    std::vector<float> slopes;  // 0
    std::vector<float> z;
    LossMemory of_loss;
    std::vector<Index> moved;  // classes whose intercepts move, and their gradients
    std::vector<float> moved_g;
  };

  struct Work {
    Scratch scratch;
    Moves moves;
  };

  PairsPolicy(const PairsProblem& problem, const Settings& settings)
      : problem_(problem),
        settings_(with_vectors_of_32_bytes(settings)),
        is_logistic_(std::holds_alternative<LogisticOfEach>(problem.loss)),
        is_margin_(std::holds_alternative<SmoothedMargin>(problem.loss)),
        rows_(problem_.support, problem_.values, problem_.n_classes()),
        span_(span_of(problem_.n_classes(), settings)),
        unmet_(std::make_unique<UnmetClasses>(unmet_problem(), bounds_of_parts())),
        turns_(turns_of(problem, settings)) {
    if (settings.batch == 1 || settings.hogwild) return;
    moves_.resize(static_cast<std::size_t>(settings.batch));
    scratch_.resize(static_cast<std::size_t>(settings.n_threads));
  }

  void begin(const Run& run) {
    if (!unmet_->is_new()) renew_all(run);
  }

  void end(const Run& run) { begin(run); }

  // Racing threads end anywhere.
  bool may_end(Offset visit) const { return settings_.hogwild || visit % span_ == 0; }

  // Alone

  Work work() const { return {scratch(), {}}; }

  Offset visits_at_a_time() const { return alone_at_a_time; }

  void make(const Run& run, Visits visits, Work& work, Progress& progress) {
    for (std::size_t b = 0; b < visits.size; ++b) {
      const Index i = run.order[visits.begin + static_cast<Offset>(b)];
      if (!look_at(run, i, work.scratch, work.moves)) return;
      const double so_far = unmet_->so_far() + work.moves.of_unmet;
      move_classes(run, i, work.moves, so_far, unmet_->all_parts(), work.scratch);
      move_due(run, unmet_->all_parts(), so_far);
      unmet_->have_moved(so_far);
      if (turns_.any()) shrink(run, {visits.begin + static_cast<Offset>(b), 1}, 0, 1);
      count(work.moves, progress);
    }
    if (may_renew(visits)) renew_all(run);
  }

  // Together

  void look(Member me, const Run& run, Visits visits) {
    const auto rank = static_cast<std::size_t>(me.rank());
    if (scratch_[rank].sums.empty()) scratch_[rank] = scratch();
    for (std::size_t b = rank; b < visits.size; b += static_cast<std::size_t>(me.size())) {
      look_at(run, run.order[visits.begin + static_cast<Offset>(b)], scratch_[rank], moves_[b]);
    }
  }

  void move(Member me, const Run& run, Visits visits) {
    const Parts mine = unmet_->share(me);
    Scratch& scratch = scratch_[static_cast<std::size_t>(me.rank())];
    double so_far = unmet_->so_far();
    for (std::size_t b = 0; b < visits.size; ++b) {
      so_far += moves_[b].of_unmet;
      move_classes(run, run.order[visits.begin + static_cast<Offset>(b)], moves_[b], so_far, mine, scratch);
    }
    move_due(run, mine, so_far);
    if (me.rank() == 0) so_far_ = so_far;
    if (may_renew(visits)) {
      unmet_->renew(mine, so_far, static_cast<float>(run.stretch.eta_u), me.rank() == 0, [&] { me.barrier(); });
    }
    if (!turns_.any()) return;
    me.barrier();
    shrink(run, visits, static_cast<std::size_t>(me.rank()), static_cast<std::size_t>(me.size()));
  }

  void account(Visits visits, Progress& progress) {
    for (std::size_t b = 0; b < visits.size; ++b) count(moves_[b], progress);
  }

  void follow(Member me, Visits visits) {
    if (me.rank() == 0 && !may_renew(visits)) unmet_->have_moved(so_far_);
  }

 private:
  using Parts = UnmetClasses::Parts;

  static constexpr Offset alone_at_a_time = 16;
  // A row counts as that at most: its moves are then the rate, whatever its weight is, and products with the largest
  // rates and features are numbers.
  static constexpr double most_weight = 0x1p30;

  // Visits after which all intercepts are gone through: a visit's part of that does not grow with the classes, up to
  // the last bound, which is for those who wait for training to end.
  static Offset span_of(Index n_classes, const Settings& settings) {
    const Offset at_a_time = settings.batch > 1 ? settings.batch : alone_at_a_time;
    const Offset wanted = std::clamp<Offset>(n_classes / 256, 64, 4096);
    return (wanted + at_a_time - 1) / at_a_time * at_a_time;
  }

  UnmetClasses::Problem unmet_problem() const {
    const bool sums_labels =
        std::holds_alternative<CrossEntropy>(problem_.loss) || std::holds_alternative<Decoupled>(problem_.loss);
    const double labels_a_point =
        static_cast<double>(problem_.labels.ids.size()) / std::max(1.0, static_cast<double>(problem_.x.n_rows()));
    return {problem_.intercept, problem_.intercept_squares, is_logistic_, sums_labels ? labels_a_point : 1.0, span_,
            settings_.isa};
  }

  // Bounds of ranges of classes with about as many weights each, for threads to own.
  std::vector<Index> bounds_of_parts() const {
    constexpr std::size_t n_ranges = 64;
    std::vector<std::size_t> sizes(problem_.intercept.size(), 1);
    for (const Index k : problem_.support.ids) ++sizes[static_cast<std::size_t>(k)];
    std::size_t total = 0, sum = 0;
    for (const std::size_t size : sizes) total += size;
    std::vector<Index> bounds{0};
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      sum += sizes[k];
      while (bounds.size() <= n_ranges && sum * n_ranges >= total * bounds.size()) {
        bounds.push_back(static_cast<Index>(k) + 1);
      }
    }
    return bounds;
  }

  Scratch scratch() const {
    const std::size_t n = problem_.intercept.size();
    return {std::vector<float>(n, no_sum), std::vector<float>(n), {}, {}, {}, {}};
  }

  // The gradient of a point at the present weights; false where it has run away.
  bool look_at(const Run& run, Index i, Scratch& scratch, Moves& moves) const {
    const SparseRow x = problem_.x.row(i);
    const std::span<const Index> labels = problem_.labels.of(static_cast<std::size_t>(i));
    const std::span<float> z = meet(x, labels, scratch, moves), g = first_of(moves.g, moves.n);
    float largest = std::fabs(unmet_->centre());
    run_with<Isa::avx2>(settings_.isa, [&] { largest = std::fmax(largest, largest_of(z)); });
    if (!(largest <= static_cast<float>(runaway))) {
      run.watch.diverged(i);
      return false;
    }
    const double unmet = moves.are_of_all || is_margin_ ? 0 : unmet_->sum_without(moves.ids());
    const LabelScores scores{z.first(labels.size()), z.subspan(labels.size()), is_logistic_ ? 0 : unmet,
                             unmet_->centre()};
    LabelGradient gradient{g.first(labels.size()), g.subspan(labels.size())};
    moves.loss = value_of(problem_.loss, scores, gradient, scratch.of_loss, settings_.isa);
    moves.of_unmet = gradient.rest;
    if (is_logistic_ && !moves.are_of_all) {
      moves.loss += unmet;
      moves.of_unmet = 1;
    }
    if (!problem_.weights.empty()) {
      const double weight = std::min(problem_.weights[static_cast<std::size_t>(i)], most_weight);
      moves.loss *= weight;
      moves.of_unmet *= weight;
      for (float& slope : g) slope *= static_cast<float>(weight);
    }
    const RngKey key{settings_.seed, static_cast<std::uint64_t>(run.stretch.pass)};
    const Rounding rounding(problem_.rounding,
                            Rng(key, first_local_item + settings_.first_point + static_cast<std::uint64_t>(i)));
    if (moves.are_of_all) {
      round_all(rounding, labels, moves);
    } else {
      round_listed(rounding, moves);
    }
    if (std::isfinite(moves.loss)) return true;
    run.watch.diverged(i);
    return false;
  }

  // The scores of the labels and then of the other classes that the row meets, which are listed. Where its pairs are
  // as many as the classes, all of these count as met: that costs less than to ask for each.
  std::span<float> meet(SparseRow x, std::span<const Index> labels, Scratch& scratch, Moves& moves) const {
    const std::size_t n_classes = problem_.intercept.size();
    std::size_t n_pairs = 0;
    for (const Index j : x.indices) n_pairs += problem_.support.of(static_cast<std::size_t>(j)).size();
    poll(n_pairs);
    moves.are_of_all = n_pairs >= n_classes;
    if (moves.are_of_all) {
      moves.n = n_classes;
      const std::span<float> z = first_of(scratch.z, n_classes);
      run_with<Isa::avx2>(settings_.isa, [&] {
        std::ranges::copy(problem_.intercept, z.begin());
        rows_.add_scores(x, {0, problem_.n_classes()}, z);
      });
      // Labels are sorted: the l-th of them is in its own place until then.
      for (std::size_t l = 0; l < labels.size(); ++l) std::swap(z[l], z[static_cast<std::size_t>(labels[l])]);
      return z;
    }
    const std::span<Index> ids = first_of(moves.classes, std::min(n_classes, labels.size() + n_pairs) + 1);
    const std::span<float> sums(scratch.sums);
    for (std::size_t l = 0; l < labels.size(); ++l) {
      ids[l] = labels[l];
      sums[static_cast<std::size_t>(labels[l])] = 0;
    }
    run_with<Isa::avx2>(settings_.isa, [&] { moves.n = rows_.add_met(x, sums, ids.data(), labels.size()); });
    const std::span<float> z = first_of(scratch.z, moves.n);
    run_with<Isa::avx2>(settings_.isa, [&] {
      for (std::size_t c = 0; c < z.size(); ++c) {
        const auto k = static_cast<std::size_t>(ids[c]);
        z[c] = problem_.intercept[k] + sums[k];
        sums[k] = no_sum;
      }
    });
    return z;
  }

  // Rounds the gradients of all classes, which are left in their order, and lists those that are not 0. Most lines of
  // 16 are only read.
  void round_all(const Rounding& rounding, std::span<const Index> labels, Moves& moves) const {
    const std::size_t n_classes = problem_.intercept.size();
    const std::span<float> g = first_of(moves.g, n_classes), of_bias = first_of(moves.of_bias, n_classes + 1);
    const std::span<Index> ids = first_of(moves.classes, n_classes + 1);
    for (std::size_t l = labels.size(); l-- > 0;) std::swap(g[l], g[static_cast<std::size_t>(labels[l])]);
    run_with<Isa::avx2>(settings_.isa, [&] {
      rounding.round(ClassRange{0, problem_.n_classes()}, g);
      std::size_t n = 0;
      for (std::size_t begin = 0; begin < n_classes; begin += line_floats) {
        const std::span<const float> line =
            std::span<const float>(g).subspan(begin, std::min(line_floats, n_classes - begin));
        if (largest_of(line) == 0) continue;
        for (std::size_t c = 0; c < line.size(); ++c) {
          ids[n] = static_cast<Index>(begin + c);
          of_bias[n] = line[c];
          n += is_zero(line[c]) ? 0 : 1;
        }
      }
      moves.n = n;
    });
  }

  // Rounds the gradients, and leaves the classes that have any.
  void round_listed(const Rounding& rounding, Moves& moves) const {
    const std::span<Index> ids = moves.ids();
    const std::span<float> g = first_of(moves.g, moves.n), of_bias = first_of(moves.of_bias, moves.n);
    const auto of_unmet = static_cast<float>(moves.of_unmet);
    run_with<Isa::avx2>(settings_.isa, [&] {
      for (std::size_t c = 0; c < g.size(); ++c) of_bias[c] = g[c] - of_unmet * unmet_->share(ids[c]);
      rounding.round(ClassList(ids), g);
      rounding.round(ClassList(ids), of_bias);
      if (!unmet_->learns()) std::ranges::fill(of_bias, 0.0F);
      std::size_t n = 0;
      for (std::size_t c = 0; c < g.size(); ++c) {
        const float slope = g[c], bias_slope = of_bias[c];  // the next turn need not wait for what this one writes
        ids[n] = ids[c];
        g[n] = slope;
        of_bias[n] = bias_slope;
        n += are_zero(slope, bias_slope) ? 0 : 1;
      }
      moves.n = n;
    });
  }

  // Of the bits alone: to compare numbers asks whether they are any.
  static bool is_zero(float x) { return are_zero(x, x); }
  static bool are_zero(float x, float y) {
    return (std::bit_cast<std::uint32_t>(x) | std::bit_cast<std::uint32_t>(y)) << 1 == 0;
  }

  // Moves the weights and intercepts of the listed classes that are in some parts, after the visits that give `so_far`.
  void move_classes(const Run& run, Index i, const Moves& moves, double so_far, Parts parts, Scratch& scratch) const {
    const ClassRange mine = unmet_->classes(parts);
    const auto for_mine = [&](auto&& f) {
      for (std::size_t c = 0; c < moves.n; ++c) {
        if (moves.classes[c] >= mine.begin && moves.classes[c] < mine.end()) f(moves.classes[c], c);
      }
    };
    const std::span<float> slopes(scratch.slopes);
    const auto rate = static_cast<float>(run.stretch.eta_u);
    const auto descend = [&](std::span<const float> g, Isa isa) {
      rows_.descend(problem_.x.row(i), mine, g, problem_.squares.sums, static_cast<float>(run.stretch.eta),
                    problem_.squares.offset, isa);
    };
    run_with<Isa::avx2>(settings_.isa, [&](Isa isa) {
      if (moves.are_of_all) {
        descend(moves.g, isa);
      } else {
        for_mine([&](Index k, std::size_t c) { slopes[static_cast<std::size_t>(k)] = moves.g[c]; });
        descend(slopes, isa);
        for_mine([&](Index k, std::size_t) { slopes[static_cast<std::size_t>(k)] = 0; });
      }
      if (!unmet_->learns()) return;
      const std::span<Index> moved = first_of(scratch.moved, moves.n + 1);
      const std::span<float> g = first_of(scratch.moved_g, moves.n + 1);
      std::size_t n = 0;
      for_mine([&](Index k, std::size_t c) {
        moved[n] = k;
        g[n] = moves.of_bias[c];
        n += is_zero(moves.of_bias[c]) ? 0 : 1;
      });
      unmet_->add_to_sum(unmet_->move(ClassList(moved.first(n)), g.first(n), so_far, rate, isa));
    });
  }

  void move_due(const Run& run, Parts parts, double so_far) const {
    if (!unmet_->learns()) return;
    const auto rate = static_cast<float>(run.stretch.eta_u);
    run_with<Isa::avx2>(settings_.isa,
                        [&](Isa isa) { unmet_->add_to_sum(unmet_->move_due(parts, so_far, rate, isa)); });
  }

  // A visit moves as many weights as its features have, on the mean.
  static RidgeTurns turns_of(const PairsProblem& problem, const Settings& settings) {
    if (!(settings.ridge > 0)) return {};
    const auto n_points = static_cast<std::size_t>(problem.x.n_rows());
    double met = 0;
    for (std::size_t i = 0; i < n_points; ++i) {
      for (const Index j : problem.x.row(static_cast<Index>(i)).indices) {
        met += static_cast<double>(problem.support.of(static_cast<std::size_t>(j)).size());
      }
    }
    const double of_visit = met / static_cast<double>(std::max(n_points, std::size_t{1}));
    return RidgeTurns(settings.ridge, problem.values.size(), of_visit, n_points);
  }

  // A member's part of the weights whose turn it is, all of which have moved.
  void shrink(const Run& run, Visits visits, std::size_t rank, std::size_t size) const {
    const auto rate = static_cast<float>(std::min(run.stretch.eta * turns_.due(), static_cast<double>(most_adagrad)));
    run_with<Isa::avx2>(settings_.isa, [&] {
      turns_.for_each(run.stretch.pass, visits.begin, visits.size, [&](std::size_t first, std::size_t last) {
        const std::size_t from = first + (last - first) * rank / size, to = first + (last - first) * (rank + 1) / size;
        shrink_by_adagrad(problem_.values.data() + from, problem_.squares.sums.data() + from, to - from, rate,
                          problem_.squares.offset);
      });
    });
  }

  bool may_renew(Visits visits) const { return (visits.begin + static_cast<Offset>(visits.size)) % span_ == 0; }

  void renew_all(const Run& run) const {
    unmet_->renew(unmet_->all_parts(), unmet_->so_far(), static_cast<float>(run.stretch.eta_u), true, [] {});
  }

  static void count(const Moves& moves, Progress& progress) {
    progress.loss += moves.loss;
    progress.class_updates += static_cast<std::int64_t>(moves.n);
  }

  PairsProblem problem_;
  Settings settings_;
  bool is_logistic_;
  bool is_margin_;  // classes that a row does not meet have no part in it
  PairRows<float> rows_;
  Offset span_;
  std::unique_ptr<UnmetClasses> unmet_;
  std::vector<Moves> moves_;      // of each point of a batch
  std::vector<Scratch> scratch_;  // of each thread
  double so_far_ = 0;             // of UnmetClasses after a batch: others may look at the next one when it is told
  RidgeTurns turns_;              // of the weights, in the order of the support
};

void check(const PairsProblem& p) {
  const auto n_points = static_cast<std::size_t>(p.x.n_rows());
  check(p.support, static_cast<std::size_t>(p.x.n_cols), p.intercept.size(), "supported classes");
  check(p.labels, n_points, p.intercept.size(), "labels");
  for (std::size_t i = 0; i < n_points; ++i) {
    if (p.labels.of(i).empty()) throw std::invalid_argument("a point has no label");
  }
  if (p.values.size() != p.support.ids.size() || p.squares.sums.size() != p.values.size() ||
      (!p.intercept_squares.sums.empty() && p.intercept_squares.sums.size() != p.intercept.size()) ||
      (!p.weights.empty() && p.weights.size() != n_points)) {
    throw std::invalid_argument("the weights, their squares and the points do not fit each other");
  }
  if (!(p.squares.offset > 0) || !(p.rounding >= 0) ||
      (!p.intercept_squares.sums.empty() && !(p.intercept_squares.offset > 0))) {
    throw std::invalid_argument("offsets must be above 0, and rounding at least 0");
  }
  if (std::holds_alternative<Triplet>(p.loss)) {
    throw std::invalid_argument("weights on pairs are trained by a softmax, a margin or a logistic loss");
  }
}

}  // namespace

std::unique_ptr<Trainer> pairs_trainer(const PairsProblem& problem, const Settings& settings) {
  check(problem);
  const auto n_points = static_cast<std::size_t>(problem.x.n_rows());
  return std::make_unique<Loop<PairsPolicy>>(PairsPolicy(problem, settings), n_points, settings);
}

}  // namespace manyclass
