// Steps that are as long as is still unknown of a weight, for rows that come one after the other and may never return.
//
// An online Laplace approximation whose covariance is diagonal: the step size of a weight is the inverse of the sum of
// its prior's precision and the curvatures of the rows so far,
//
//   eta_kj = 1 / (1 / eta + sum_i p_ik (1 - p_ik) x_ij^2),
//
// p_k (1 - p_k) being the diagonal of the softmax's Hessian in the scores. So steps fall as 1 / n, with the rows that
// have the feature and may have the class: they stay long for rare features and for new classes, and no end of the
// training has to be known. Of the sums only the margins are kept, S_j = sum_i x_ij^2 of each feature and
// C_k = sum_i p_ik (1 - p_ik) of each class, and the sum of the products is taken as S_j C_k / n. A visit moves all of
// its weights along one vector, so that the step sizes are made a product, too: that of a class of the mean curvature,
// 1 / K a row, for each feature, times a factor for each class, which is right where the row's features have been seen
// equally often.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "manyclass/core/csr.hpp"
#include "manyclass/math/elementary.hpp"
#include "manyclass/objective/point.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

class Curvature {
 public:
  // Rows that came early count with the curvature that they had then, which is larger than what is left of it. Steps of
  // gain times the inverse forget what was wrong at first as n^-gain, and end with gain^2 / (2 gain - 1) of the noise:
  // 1.04 of it. With 50 classes and 100,000 rows the loss so ends .025 above the optimum, and .035 with a gain of 1.
  static constexpr double gain = 1.25;

  // Sums of x_ij^2 over earlier rows, and over the rows of this training, which count as they are visited: D + 1
  // numbers, the last being that of the intercepts, whose feature is 1. And the sums of p_k (1 - p_k) over all visits
  // so far.
  Curvature(std::span<const double> before, std::span<const double> now, std::span<double> classes)
      : before_(before), now_(now), classes_(classes), mean_(1 / (gain * static_cast<double>(classes.size()))) {}

  std::size_t n_sums() const { return before_.size(); }
  std::size_t n_classes() const { return classes_.size(); }

  // What a visit to x takes when `passes` have been made, the first step size being eta: its own step size, which is
  // that of the intercept of a class of the mean curvature; and the vector that weights move along, x_j times the step
  // size of feature j over that of the intercept, with its product with x.
  template <class Slot>
  void begin(SparseRow x, double eta, double passes, double intercept_sq, Slot& slot) const {
    begin(x.values, eta, passes, intercept_sq, slot,
          [x](std::size_t n) { return static_cast<std::size_t>(x.indices[n]); });
  }
  template <class Slot>
  void begin(DenseRow x, double eta, double passes, double intercept_sq, Slot& slot) const {
    begin(x, eta, passes, intercept_sq, slot, [](std::size_t n) { return n; });
  }

  // By what the step size of u falls when that of W has fallen by a factor. A u that goes to what a draw of m classes
  // says is closer to the proximal step of the log-loss itself, and biased by O(1 / m). So it goes there while that is
  // less than what is still to be learnt, and no longer once it is more: with 5 of 50 classes for ever, the loss ends
  // .09 nats above the optimum; with steps that fall at once, eurlex57k by 256 of 1,809 classes is .1 nats higher after
  // a pass.
  static double falls_of_u(double falls, std::size_t m) { return 1 + falls / static_cast<double>(m * m); }

  // Writes the factors of the visit's classes.
  template <class Slot>
  void write_factors(Slot& slot, Index label) const {
    for_runs(slot.classes, [&](ClassRange run, std::size_t c0) {
      const auto sums = at_classes(std::span<const double>(classes_), run);
      const std::span<float> factors = slot.factors.subspan(c0, run.size());
      for (std::size_t c = 0; c < run.size(); ++c) factors[c] = factor(slot, sums[c]);
    });
    slot.label_factor = factor(slot, classes_[static_cast<std::size_t>(label)]);
  }

  // Tells a point how far each class moves by it: see SampledPoint.
  template <class Slot>
  static void write_lengths(Slot& slot, SampledPoint& point) {
    const auto all = static_cast<float>(point.x_sq);
    for (std::size_t c = 0; c < point.size(); ++c) slot.x_sqs[c] = all * slot.factors[c];
    point.x_sqs = slot.x_sqs.first(point.size());
    point.x_sq *= static_cast<double>(slot.label_factor);
  }

  // Multiplies the moves of a visit by the factors of the classes, and notes what the visit tells of their curvatures
  // by log_sum = log sum_k e^{z_k - z_y}, which is exact, or what the visit's own draw makes of it: u may be far off.
  template <class Slot>
  static void end(Slot& slot, const SampledPoint& point, double log_sum, double weight) {
    weight = std::min(weight, most);  // a sum of this never lets the class move again
    const auto shift = static_cast<float>(point.label_score + log_sum), w = static_cast<float>(weight);
    for (std::size_t c = 0; c < point.size(); ++c) {
      slot.moves[c] *= slot.factors[c];
      const float score = point.scores[c] - shift, p = vec::exp(score < 0 ? score : 0);
      slot.factors[c] = w * point.alpha[c] * p * (1 - p);
    }
    slot.move.label *= static_cast<double>(slot.label_factor);
    const double p = std::exp(-std::fmax(log_sum, 0.0));
    slot.label_curvature = weight * p * (1 - p);
  }

  // Adds what a visit has told to the sums of the classes `mine`.
  template <class Slot>
  void learn(const Slot& slot, Index label, ClassRange mine) const {
    for_parts(slot.classes, mine, [&](const auto& part, std::size_t first) {
      for_runs(part, [&](ClassRange run, std::size_t c0) {
        const auto sums = at_classes(classes_, run);
        const std::span<const float> told = slot.factors.subspan(first + c0, run.size());
        for (std::size_t c = 0; c < run.size(); ++c) sums[c] += static_cast<double>(told[c]);
      });
    });
    if (label >= mine.begin && label < mine.end()) classes_[static_cast<std::size_t>(label)] += slot.label_curvature;
  }

 private:
  static constexpr double most = 1e30;  // a product with a step then stays within single precision

  double sum(std::size_t j, double passes) const { return before_[j] + passes * now_[j]; }
  // The first step size over that of feature j.
  double falls(std::size_t j, double eta, double passes) const { return 1 + eta * mean_ * sum(j, passes); }

  template <class Slot, class Feature>
  void begin(std::span<const float> x, double eta, double passes, double intercept_sq, Slot& slot,
             const Feature& feature) const {
    const std::size_t last = before_.size() - 1;
    const double of_intercept = falls(last, eta, passes);
    slot.eta = eta / of_intercept;
    double first_sq = intercept_sq;
    slot.x_sq = 0;
    for (std::size_t n = 0; n < x.size(); ++n) {
      const auto value = static_cast<double>(x[n]);
      const double move = std::clamp(value * (of_intercept / falls(feature(n), eta, passes)), -most, most);
      slot.x_moved[n] = static_cast<float>(move);
      slot.x_sq += value * move;
      first_sq += value * value;
    }
    slot.rest = first_sq > 0 ? static_cast<float>((slot.x_sq + intercept_sq) / (of_intercept * first_sq)) : 1;
    // One row more, so that there is a mean before the first.
    slot.per_curvature = static_cast<double>(classes_.size()) / (1 + sum(last, passes));
  }

  // The step size of a class over that of one of the mean curvature: `rest` is the share of the prior's variance that
  // the latter has left.
  template <class Slot>
  static float factor(const Slot& slot, double sum) {
    constexpr float least = 1e-12F;  // where a row of a huge weight has left nothing in single precision
    // A product in double precision: rows of weight 1e40 make one of the two infinite and the other 0 in single.
    const auto share = static_cast<float>(std::min(slot.per_curvature * sum, most));
    return 1 / std::max(slot.rest + (1 - slot.rest) * share, least);
  }

  std::span<const double> before_, now_;
  std::span<double> classes_;
  double mean_;  // the curvature of a row that is uniform over the classes, over the gain
};

// A row with other values at the same features.
inline SparseRow with_values(SparseRow x, std::span<const float> values) {
  return {x.indices, values.first(x.values.size())};
}
inline DenseRow with_values(DenseRow x, std::span<const float> values) { return values.first(x.size()); }

inline std::size_t n_values(SparseRow x) { return x.values.size(); }
inline std::size_t n_values(DenseRow x) { return x.size(); }

}  // namespace manyclass
