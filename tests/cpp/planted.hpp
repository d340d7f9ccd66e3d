// A planted problem: class k is the feature k of a point, beside weak noise in the other features.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/evaluate/log_loss.hpp"
#include "manyclass/train/points/plan.hpp"

namespace manyclass::testing {

// Owns the data and one model; `sparse` tells which storage.
class Planted {
 public:
  static constexpr Index n_classes = 40;  // not a multiple of a cache line, so that padding is at work
  static constexpr Index n_features = n_classes;
  static constexpr Index n_points = 480;
  static constexpr Index stride = 48;

  explicit Planted(bool sparse)
      : sparse_(sparse),
        weights_(static_cast<std::size_t>(sparse ? n_features * stride : n_classes * n_features)),
        intercept_(n_classes),
        u_(n_points, std::log(static_cast<double>(n_classes))) {
    dense_.resize(static_cast<std::size_t>(n_points) * n_features);
    indptr_.push_back(0);
    for (Index i = 0; i < n_points; ++i) {
      Rng rng({1, 0}, static_cast<std::uint64_t>(i));
      const auto label = static_cast<Index>(rng.below(n_classes));
      const auto noisy = static_cast<Index>(rng.below(n_features));
      labels_.push_back(label);
      float* const x = dense_.data() + static_cast<std::size_t>(i) * n_features;
      x[label] += 1;
      x[noisy] += 0.25F;
      float x_sq = 0;
      for (Index j = 0; j < n_features; ++j) {
        x_sq += x[j] * x[j];
        if (x[j] == 0) continue;
        indices_.push_back(j);
        values_.push_back(x[j]);
      }
      x_sq_.push_back(x_sq);
      indptr_.push_back(static_cast<Offset>(indices_.size()));
    }
  }

  AnyProblem problem() {
    if (sparse_) return problem_of<FeatureRows<float>>(csr());
    return problem_of<ClassRows<float>>(dense());
  }

  CsrView csr() const { return {indptr_, indices_, values_, n_features}; }
  DenseView dense() const { return {dense_, n_points, n_features}; }
  SparseModel sparse_model() const {
    return {{FeatureRows<const float>(weights_, n_features), intercept_, {}}, n_classes};
  }
  DenseModel dense_model() const { return {{ClassRows<const float>(weights_, n_features), intercept_, {}}, n_classes}; }

  // Mean exact log-loss in nats.
  double loss(int n_threads = 1) const {
    std::vector<double> losses(n_points);
    std::vector<Index> ranks(n_points);
    if (sparse_) {
      log_losses(csr(), labels_, sparse_model(), n_threads, best_isa(), losses, ranks);
    } else {
      log_losses(dense(), labels_, dense_model(), n_threads, best_isa(), losses, ranks);
    }
    double sum = 0;
    for (const double one : losses) sum += one;
    return sum / n_points;
  }

  const std::vector<Index>& labels() const { return labels_; }
  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& intercept() const { return intercept_; }
  const std::vector<double>& u() const { return u_; }

 private:
  template <class Rows>
  Problem<Rows> problem_of(const typename Rows::Data& x) {
    return {x, labels_, x_sq_, u_, {Rows(weights_, n_features), intercept_, {}}, n_classes, {}, {}};
  }

  bool sparse_;
  std::vector<float> weights_;
  std::vector<float> intercept_;
  std::vector<double> u_;
  std::vector<Index> labels_;
  std::vector<float> x_sq_;
  std::vector<Offset> indptr_;
  std::vector<Index> indices_;
  std::vector<float> values_;
  std::vector<float> dense_;
};

// Makes `passes` passes at a constant step size, each in two calls; the last pass's progress.
inline Progress train(const Plan& plan, const AnyProblem& problem, double eta, int passes) {
  const auto trainer = make_trainer(plan, problem);
  // A multiple of every batch used here, as a caller must choose it.
  constexpr Index half = Planted::n_points / 2;
  Progress last;
  for (int pass = 0; pass < passes; ++pass) {
    const Progress first = trainer->run({pass, eta, eta, 0, half, 0});
    last = trainer->run({pass, eta, eta, half, Planted::n_points, first.loss});
    last.loss += first.loss;
    last.class_updates += first.class_updates;
    last.diverged_at = std::max(first.diverged_at, last.diverged_at);
  }
  return last;
}

}  // namespace manyclass::testing
