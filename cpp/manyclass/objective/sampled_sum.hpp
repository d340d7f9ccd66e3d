// The sampled sum A = sum_P e^{z_l - o} + sum_S alpha e^{z_k - o}, without overflow. The origin o is the mean score of
// the labels P: of one label A = 1 + sum_S alpha e^d.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "manyclass/math/elementary.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/math/sums.hpp"
#include "manyclass/objective/point.hpp"

namespace manyclass {

struct SampledSum {
  double shift;   // M >= 0, at least every z_k - o
  double labels;  // sum_P e^(z_l - o - M)
  double scaled;  // sum_S alpha e^(z_k - o - M)
  double log_a;   // log A
};

// Writes alpha_k e^(z_k - top) to `terms` and returns their sum.
inline double sum_of_terms(const SampledPoint& point, float top, std::span<float> terms) {
  for (std::size_t k = 0; k < point.size(); ++k) {
    terms[k] = point.alpha[k] * vec::normal_exp(point.scores[k] - top);
  }
  return sum_of(terms);
}

// Writes alpha_k e^(d_k - M) to `terms`; d_k = z_k - z_y.
inline SampledSum sampled_sum(const SampledPoint& point, std::span<float> terms) {
  const auto z_y = static_cast<float>(point.label_score);
  const float top = max_of(point.scores, z_y);
  const double shift = static_cast<double>(top) - point.label_score;
  const double scaled = sum_of_terms(point, top, terms);
  const double label = std::exp(-shift);
  return {shift, label, scaled, shift + std::log(label + scaled)};
}

// That of a point with no label among the classes, whose scores are counted from 0: of no classes it is 0.
inline SampledSum sum_without_label(const SampledPoint& point, std::span<float> terms) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  if (point.size() == 0) return {0, 0, 0, none};
  const float top = max_of(point.scores, point.scores[0]);
  const auto shift = static_cast<double>(top);
  const double scaled = sum_of_terms(point, top, terms);
  return {shift, 0, scaled, shift + std::log(scaled)};
}

// That of several labels with scores `labels`, whose mean is the point's label_score.
inline SampledSum sampled_sum(const SampledPoint& point, std::span<const float> labels, std::span<float> terms) {
  const float top = max_of(point.scores, max_of(labels, labels[0]));
  const double shift = static_cast<double>(top) - point.label_score;
  double own = 0;
  for (const float z : labels) own += std::exp(static_cast<double>(z) - static_cast<double>(top));
  const double scaled = sum_of_terms(point, top, terms);
  return {shift, own, scaled, shift + std::log(own + scaled)};
}

// The u of a point with several labels or, where nothing is known of it (NaN), what its own draw makes of it.
inline double known(double u, double log_a) { return std::isnan(u) ? log_a : u; }

// log(sum_P e^{z_l - o} + sum_S e^{z_k - o}), each class once: never above log A of all classes. `terms` are those of
// `sum`.
inline double bound_from_below(const SampledPoint& point, const SampledSum& sum, std::span<const float> terms) {
  double once = 0;
  for (std::size_t k = 0; k < point.size(); ++k) {
    once += point.alpha[k] > 0 ? static_cast<double>(terms[k] / point.alpha[k]) : 0.0;
  }
  return sum.shift + std::log(sum.labels + once);
}

}  // namespace manyclass
