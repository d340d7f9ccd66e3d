// Training by implicit steps of whole batches (Fagan & Iyengar 2018, F.3, with a ridge that is part of the step).
//
// A fixed partition splits the points once into J batches, and each pass visits every batch once, in a random order. A
// visit draws m classes, without replacement, from the K - n_Y that are no labels of batch j, and takes the proximal
// point of
//
//   f_jC = J/N sum_{i in S_j} (u_i + e^-u_i d_i) + alpha/2 sum_{k in C and Y_j} b_k |w_k|^2,
//   d_i = 1 + sum_{k in Y_j, k != y_i} e^{z_k - z_{y_i}} + (K - n_Y)/m sum_{k in C} e^{z_k - z_{y_i}},
//
// Y_j being the distinct labels of the batch, n_Y their number and b_k the inverse of the probability that a visit of a
// uniform batch touches k. Its mean over j and C is the objective itself, also where the last batch is short.
//
// A random partition (arXiv version, E.4) draws n points I for each visit, and m of all K classes, labels or not, both
// without replacement; a pass is as many visits. Then
//
//   f_IC = 1/n sum_{i in I} (u_i + e^-u_i d_i) + alpha/2 sum_{k in C and Y_I} b_k |w_k|^2,
//   d_i = 1 + K/m sum_{k in C, k != y_i} e^{z_k - z_{y_i}},
//   1/b_k = 1 - (1 - m/K) P(no point of k is in I),
//
// the last being hypergeometric. Labels of other points count only where they are drawn. (E.4 writes weights N/n for
// the sum over points, which is N times the mean here, and solves another problem, its eq. 28; this is F.3's.)
//
// With weights of points the terms of both sums over i are multiplied by them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/step/minibatch_prox.hpp"
#include "manyclass/train/common/loop.hpp"
#include "manyclass/train/points/first_u.hpp"

namespace manyclass {

enum class Partition { fixed, random };
inline constexpr std::array<Facts, 2> partition_facts{{
    {.name = "fixed",
     .sentence = "Batches are made once; a visit sees all labels of its batch, and some of the other classes.",
     .source = "Fagan & Iyengar 2018, F.3.1"},
    {.name = "random",
     .sentence = "Each visit draws its points anew, and some of all classes.",
     .source = "Fagan & Iyengar 2018, arXiv, E.4"},
}};

// Beside the items of rng.hpp: the split into batches, an item of epoch 0.
inline constexpr std::uint64_t batches_item = ~2ULL;

// The policy of the loop whose items are batches. Visits are counted in points all the same, and a stretch must begin
// where a batch does. Adaptive steps and projections are not made.
template <class Rows>
class BatchProx {
 public:
  BatchProx(Problem<Rows> problem, Partition partition, Index n_negatives, const Settings& settings)
      : problem_(problem), partition_(partition), n_negatives_(n_negatives), settings_(settings) {
    place_.assign(at(problem_.n_classes), absent);
    if (partition == Partition::random) {
      points_.resize(std::min(batch(), n_points()));
      in_batch_.assign(n_points(), 0);
      if (settings_.ridge > 0) weigh_random_visits();
      return;
    }
    points_.resize(n_points());
    std::iota(points_.begin(), points_.end(), 0);
    if (settings_.shuffle) shuffle(points_, Rng({settings_.seed, 0}, batches_item));
    if (settings_.ridge > 0) weigh_visits();
  }

  // One thread runs, whose memory is the policy's own.
  struct Work {};
  Work work() const { return {}; }
  Offset visits_at_a_time() const { return settings_.batch; }

  void make(const Run& run, Visits visits, Work&, Progress& progress) {
    visit(run.order[visits.begin / settings_.batch], visits.size, run, progress);
  }

 private:
  static constexpr std::size_t absent = std::numeric_limits<std::size_t>::max();

  std::size_t batch() const { return static_cast<std::size_t>(settings_.batch); }
  std::size_t n_points() const { return problem_.labels.size(); }
  std::size_t n_batches() const { return (n_points() + batch() - 1) / batch(); }
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  Index label(Index i) const { return problem_.labels[at(i)]; }

  std::span<const Index> points_of(Index j) const {
    const std::size_t first = at(j) * batch();
    return std::span<const Index>(points_).subspan(first, std::min(batch(), points_.size() - first));
  }

  std::size_t n_drawn(std::size_t n_labels) const {
    return std::min(at(n_negatives_), at(problem_.n_classes) - n_labels);
  }

  // The distinct labels of some points, ascending.
  void name_labels(std::span<const Index> points) {
    classes_.clear();
    for (const Index i : points) classes_.push_back(label(i));
    std::sort(classes_.begin(), classes_.end());
    classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
  }

  // b_k: batch j touches its labels, and any other class with the same probability.
  void weigh_visits() {
    double any = 0;
    visit_weight_.assign(place_.size(), 0);
    for (Index j = 0; at(j) < n_batches(); ++j) {
      name_labels(points_of(j));
      const std::size_t others = place_.size() - classes_.size();
      const double drawn =
          others == 0 ? 0 : static_cast<double>(n_drawn(classes_.size())) / static_cast<double>(others);
      any += drawn;
      for (const Index k : classes_) visit_weight_[at(k)] += 1 - drawn;
    }
    for (double& b : visit_weight_) b = static_cast<double>(n_batches()) / (b + any);
  }

  // b_k: of the N points, n_k are of class k, and none of them is among n with probability
  // prod_{t < n} (N - n_k - t) / (N - t).
  void weigh_random_visits() {
    const double not_drawn = 1 - static_cast<double>(n_drawn(0)) / static_cast<double>(place_.size());
    std::vector<std::size_t> counts(place_.size());
    for (const Index y : problem_.labels) ++counts[at(y)];
    std::map<std::size_t, double> by_count;
    visit_weight_.resize(place_.size());
    for (std::size_t k = 0; k < place_.size(); ++k) {
      const auto [found, is_new] = by_count.try_emplace(counts[k], 1.0);
      for (std::size_t t = 0; is_new && t < points_.size(); ++t) {
        const double left = static_cast<double>(n_points() - t);
        found->second *= std::fmax(left - static_cast<double>(counts[k]), 0.0) / left;
      }
      visit_weight_[k] = 1 / (1 - not_drawn * found->second);
    }
  }

  // The distinct labels of the batch in ascending order, then m other classes, drawn by their ranks among the others.
  void draw(std::span<const Index> points, Rng rng) {
    name_labels(points);
    const std::size_t n_labels = classes_.size(), m = n_drawn(n_labels), others = place_.size() - n_labels;
    for (std::size_t c = 0; c < n_labels; ++c) place_[at(classes_[c])] = c;
    const auto ranked = [&](Index k) {
      for (std::size_t c = 0; c < n_labels && classes_[c] <= k; ++c) ++k;
      return k;
    };
    draw_distinct(
        rng, static_cast<Index>(others), static_cast<Index>(m),
        [&](Index rank) { return place_[at(ranked(rank))] != absent; },
        [&](Index rank) {
          place_[at(ranked(rank))] = classes_.size();
          classes_.push_back(ranked(rank));
        });
    log_weights_.assign(classes_.size(), 0);
    for (std::size_t c = n_labels; c < classes_.size(); ++c) {
      log_weights_[c] = std::log(static_cast<double>(others) / static_cast<double>(m));
    }
  }

  // Draws I, then C: the classes drawn, then labels of the batch that are not, whose weight is 0.
  void draw_both(Rng rng) {
    auto next = points_.begin();
    draw_distinct(
        rng, static_cast<Index>(n_points()), static_cast<Index>(points_.size()),
        [&](Index i) { return in_batch_[at(i)] != 0; },
        [&](Index i) {
          in_batch_[at(i)] = 1;
          *next++ = i;
        });
    for (const Index i : points_) in_batch_[at(i)] = 0;
    const std::size_t m = n_drawn(0);
    classes_.clear();
    const auto add = [&](Index k) {
      place_[at(k)] = classes_.size();
      classes_.push_back(k);
    };
    draw_distinct(
        rng, problem_.n_classes, static_cast<Index>(m), [&](Index k) { return place_[at(k)] != absent; }, add);
    for (const Index i : points_) {
      if (place_[at(label(i))] == absent) add(label(i));
    }
    log_weights_.assign(classes_.size(), -std::numeric_limits<double>::infinity());
    std::fill_n(log_weights_.begin(), m, std::log(static_cast<double>(place_.size()) / static_cast<double>(m)));
  }

  static double dot(DenseRow a, DenseRow b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += static_cast<double>(a[j]) * static_cast<double>(b[j]);
    return sum;
  }

  static double dot(SparseRow a, SparseRow b) {  // indices ascend
    double sum = 0;
    for (std::size_t i = 0, j = 0; i < a.indices.size() && j < b.indices.size();) {
      if (a.indices[i] == b.indices[j]) sum += static_cast<double>(a.values[i]) * static_cast<double>(b.values[j]);
      const bool a_next = a.indices[i] <= b.indices[j], b_next = b.indices[j] <= a.indices[i];
      i += a_next;
      j += b_next;
    }
    return sum;
  }

  // Gram matrix, and scores at the shrunk weights: the intercept does not shrink.
  void score(std::span<const Index> points, double eta) {
    const std::size_t n = points.size(), size = classes_.size();
    gram_.resize(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t l = 0; l <= i; ++l) {
        gram_[i * n + l] = gram_[l * n + i] = dot(problem_.x.row(points[i]), problem_.x.row(points[l]));
      }
    }
    shrinks_.assign(size, 1);
    if (settings_.ridge > 0) {
      for (std::size_t c = 0; c < size; ++c) {
        shrinks_[c] = 1 / (1 + eta * settings_.ridge * visit_weight_[at(classes_[c])]);
      }
    }
    moves_.resize(size);
    scores_.resize(n * size);
    for (std::size_t i = 0; i < n; ++i) {
      run_with(settings_.isa, [&] {
        problem_.model.scores(problem_.x.row(points[i]), ClassList(classes_), std::span<float>(moves_));
      });
      for (std::size_t c = 0; c < size; ++c) {
        const bool has_intercept = !problem_.model.intercept.empty();
        const double b = has_intercept ? static_cast<double>(problem_.model.intercept[at(classes_[c])]) : 0;
        scores_[c * n + i] = b + shrinks_[c] * (static_cast<double>(moves_[c]) - b);
      }
    }
  }

  // `n_counted` of its points belong to the pass.
  void visit(Index j, std::size_t n_counted, const Run& run, Progress& progress) {
    const Stretch& stretch = run.stretch;
    const bool is_random = partition_ == Partition::random;
    const Rng rng({settings_.seed, static_cast<std::uint64_t>(stretch.pass)},
                  settings_.first_point + static_cast<std::uint64_t>(j));
    const std::span<const Index> points = is_random ? std::span<const Index>(points_) : points_of(j);
    const std::size_t n = points.size();
    if (is_random) {
      draw_both(rng);
    } else {
      draw(points, rng);
    }
    score(points, stretch.eta);
    labels_.resize(n);
    u_.resize(n);
    point_weights_.assign(n, 1);
    for (std::size_t i = 0; i < n; ++i) {
      labels_[i] = place_[at(label(points[i]))];
      u_[i] = problem_.u[at(points[i])];
      if (std::isnan(u_[i])) u_[i] = first_u(points[i], i, n);
      if (!problem_.weights.empty()) point_weights_[i] = problem_.weights[at(points[i])];
    }
    for (const Index k : classes_) place_[at(k)] = absent;
    moves_.resize(classes_.size());
    c_.resize(scores_.size());
    t_.resize(classes_.size());
    const double share =
        is_random ? 1 / static_cast<double>(n) : static_cast<double>(n_batches()) / static_cast<double>(n_points());
    const Minibatch minibatch{
        gram_, scores_,     shrinks_,     log_weights_, labels_, point_weights_, !problem_.model.intercept.empty(),
        share, stretch.eta, stretch.eta_u};
    const MinibatchProx::Outcome outcome = prox_.solve(minibatch, u_, c_, t_);
    const bool fits = std::all_of(c_.begin(), c_.end(), [](double c) {
      return std::fabs(c) <= static_cast<double>(std::numeric_limits<float>::max());  // false for NaN
    });
    if (!fits || !(outcome.moved < runaway)) {
      run.watch.diverged(points.front());
      return;
    }
    for (std::size_t i = 0; i < n; ++i) problem_.u[at(points[i])] = u_[i];
    move_rows(points);
    progress.loss += outcome.loss * (static_cast<double>(n_counted) / static_cast<double>(n));
    progress.class_updates += static_cast<std::int64_t>(classes_.size());
  }

  // u of a point at its first visit, the i-th of n whose scores are made.
  double first_u(Index point, std::size_t i, std::size_t n) {
    const double z_y = scores_[labels_[i] * n + i];
    if (settings_.exact_first_u) {
      moves_.resize(at(problem_.n_classes));
      return log_normalizer_of(problem_, point, settings_.isa, std::span<float>(moves_)) - z_y;
    }
    LogSumExp sum{0, 1};
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      if (c != labels_[i]) sum.add(log_weights_[c] + scores_[c * n + i] - z_y);
    }
    return sum.value();
  }

  // w_k <- s_k w_k + X'c_k, b_k <- b_k + t_k: only features of the batch are touched, s_k going to the row's scale.
  void move_rows(std::span<const Index> points) {
    const std::size_t n = points.size();
    if (settings_.ridge > 0) {
      for (std::size_t k = 0; k < classes_.size(); ++k) {
        const auto shrink = static_cast<float>(shrinks_[k]);
        problem_.model.shrink(ClassRange{classes_[k], 1}, std::span<const float>(&shrink, 1));
      }
    }
    Linear<Rows> features{problem_.model.rows, {}, problem_.model.scale};
    run_with(settings_.isa, [&](Isa isa) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < classes_.size(); ++k) moves_[k] = static_cast<float>(c_[k * n + i]);
        features.add(problem_.x.row(points[i]), ClassList(classes_), std::span<float>(moves_), isa);
      }
    });
    if (problem_.model.intercept.empty()) return;
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      problem_.model.intercept[at(classes_[k])] += static_cast<float>(t_[k]);
    }
  }

  Problem<Rows> problem_;
  Partition partition_;
  Index n_negatives_;
  Settings settings_;
  std::vector<Index> points_;         // batch j is points_[j n, (j + 1) n); of a random partition: those of the visit
  std::vector<char> in_batch_;        // of a point, while they are drawn
  std::vector<double> visit_weight_;  // b_k, with a ridge
  std::vector<std::size_t> place_;    // of a class in classes_, while they are drawn
  // Of the batch being visited: see Minibatch.
  std::vector<Index> classes_;
  std::vector<std::size_t> labels_;
  std::vector<double> gram_, scores_, shrinks_, log_weights_, point_weights_, u_, c_, t_;
  std::vector<float> moves_;
  MinibatchProx prox_;
};

template <class Rows>
std::unique_ptr<Trainer> batch_prox_trainer(const Problem<Rows>& problem, Partition partition, Index n_negatives,
                                            Settings settings) {
  settings.hogwild = false;
  return std::make_unique<Loop<BatchProx<Rows>>>(BatchProx<Rows>(problem, partition, n_negatives, settings),
                                                 problem.labels.size(), settings,
                                                 static_cast<std::size_t>(settings.batch));
}

}  // namespace manyclass
