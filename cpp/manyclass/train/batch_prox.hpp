// Training by implicit steps of whole batches (Fagan & Iyengar 2018, F.3, with a ridge that is part of the step).
//
// The points are split once into J batches, and each pass visits every batch once, in a random order. A visit draws m
// classes, without replacement, from the K - n_Y that are no labels of batch j, and takes the proximal point of
//
//   f_jC = J/N sum_{i in S_j} (u_i + e^-u_i d_i) + alpha/2 sum_{k in C and Y_j} b_k |w_k|^2,
//   d_i = 1 + sum_{k in Y_j, k != y_i} e^{z_k - z_{y_i}} + (K - n_Y)/m sum_{k in C} e^{z_k - z_{y_i}},
//
// Y_j being the distinct labels of the batch, n_Y their number and b_k the inverse of the probability that a visit of a
// uniform batch touches k. Its mean over j and C is the objective itself, also where the last batch is short.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/step/minibatch_prox.hpp"
#include "manyclass/train/loop.hpp"

namespace manyclass {

// Beside the items of rng.hpp: the split into batches, an item of epoch 0.
inline constexpr std::uint64_t batches_item = ~2ULL;

// The policy of the loop whose items are batches. Visits are counted in points all the same, and a stretch must begin
// where a batch does. Adaptive steps and projections are not made.
template <class Rows>
class BatchProx {
 public:
  BatchProx(Problem<Rows> problem, Index n_negatives, const Settings& settings)
      : problem_(problem), n_negatives_(n_negatives), settings_(settings) {
    points_.resize(problem_.labels.size());
    std::iota(points_.begin(), points_.end(), 0);
    if (settings_.shuffle) shuffle(points_, Rng({settings_.seed, 0}, batches_item));
    place_.assign(static_cast<std::size_t>(problem_.n_classes), absent);
    if (settings_.ridge > 0) weigh_visits();
  }

  std::size_t n_batches() const { return (points_.size() + batch() - 1) / batch(); }

  // One thread runs, whose memory is the policy's own.
  struct Work {};
  Work work() const { return {}; }
  Offset visits_at_a_time() const { return settings_.batch; }

  void make(const Run& run, Visits visits, Work&, Progress& progress) {
    visit(run.order[visits.begin / settings_.batch], run, progress);
  }

 private:
  static constexpr std::size_t absent = std::numeric_limits<std::size_t>::max();

  std::size_t batch() const { return static_cast<std::size_t>(settings_.batch); }
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  Index label(Index i) const { return problem_.labels[at(i)]; }

  std::span<const Index> points_of(Index j) const {
    const std::size_t first = at(j) * batch();
    return std::span<const Index>(points_).subspan(first, std::min(batch(), points_.size() - first));
  }

  std::size_t n_drawn(std::size_t n_labels) const {
    return std::min(at(n_negatives_), at(problem_.n_classes) - n_labels);
  }

  void name_labels(Index j) {
    classes_.clear();
    for (const Index i : points_of(j)) classes_.push_back(label(i));
    std::sort(classes_.begin(), classes_.end());
    classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
  }

  // b_k: batch j touches its labels, and any other class with the same probability.
  void weigh_visits() {
    double any = 0;
    visit_weight_.assign(place_.size(), 0);
    for (Index j = 0; at(j) < n_batches(); ++j) {
      name_labels(j);
      const std::size_t others = place_.size() - classes_.size();
      const double drawn =
          others == 0 ? 0 : static_cast<double>(n_drawn(classes_.size())) / static_cast<double>(others);
      any += drawn;
      for (const Index k : classes_) visit_weight_[at(k)] += 1 - drawn;
    }
    for (double& b : visit_weight_) b = static_cast<double>(n_batches()) / (b + any);
  }

  // The distinct labels of the batch in ascending order, then m other classes, drawn by their ranks among the others.
  void draw(Index j, int pass) {
    name_labels(j);
    const std::size_t n_labels = classes_.size(), m = n_drawn(n_labels), others = place_.size() - n_labels;
    for (std::size_t c = 0; c < n_labels; ++c) place_[at(classes_[c])] = c;
    const auto ranked = [&](Index k) {
      for (std::size_t c = 0; c < n_labels && classes_[c] <= k; ++c) ++k;
      return k;
    };
    Rng rng({settings_.seed, static_cast<std::uint64_t>(pass)}, static_cast<std::uint64_t>(j));
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

  void visit(Index j, const Run& run, Progress& progress) {
    const Stretch& stretch = run.stretch;
    const std::span<const Index> points = points_of(j);
    const std::size_t n = points.size();
    draw(j, stretch.pass);
    score(points, stretch.eta);
    labels_.resize(n);
    u_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      labels_[i] = place_[at(label(points[i]))];
      u_[i] = problem_.u[at(points[i])];
    }
    for (const Index k : classes_) place_[at(k)] = absent;
    c_.resize(scores_.size());
    t_.resize(classes_.size());
    const double share = static_cast<double>(n_batches()) / static_cast<double>(points_.size());
    const Minibatch minibatch{gram_,        scores_,     shrinks_,
                              log_weights_, labels_,     !problem_.model.intercept.empty(),
                              share,        stretch.eta, stretch.eta_u};
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
    progress.loss += outcome.loss;
    progress.class_updates += static_cast<std::int64_t>(classes_.size());
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
    run_with(settings_.isa, [&] {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < classes_.size(); ++k) moves_[k] = static_cast<float>(c_[k * n + i]);
        features.add(problem_.x.row(points[i]), ClassList(classes_), std::span<float>(moves_));
      }
    });
    if (problem_.model.intercept.empty()) return;
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      problem_.model.intercept[at(classes_[k])] += static_cast<float>(t_[k]);
    }
  }

  Problem<Rows> problem_;
  Index n_negatives_;
  Settings settings_;
  std::vector<Index> points_;         // batch j is points_[j n, (j + 1) n)
  std::vector<double> visit_weight_;  // b_k, with a ridge
  std::vector<std::size_t> place_;    // of a class in classes_, while they are drawn
  // Of the batch being visited: see Minibatch.
  std::vector<Index> classes_;
  std::vector<std::size_t> labels_;
  std::vector<double> gram_, scores_, shrinks_, log_weights_, u_, c_, t_;
  std::vector<float> moves_;
  MinibatchProx prox_;
};

template <class Rows>
std::unique_ptr<Trainer> batch_prox_trainer(const Problem<Rows>& problem, Index n_negatives, Settings settings) {
  settings.hogwild = false;
  BatchProx<Rows> policy(problem, n_negatives, settings);
  const std::size_t n_batches = policy.n_batches();
  return std::make_unique<Loop<BatchProx<Rows>>>(std::move(policy), n_batches, settings);
}

}  // namespace manyclass
