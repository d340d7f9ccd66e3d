// Steps of augment and reduce: q of the point moves, then a few rows of W along the gradient of the bound, explicitly
// or by a proximal step at the new q. The objective is in objective/augment_reduce.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "manyclass/objective/augment_reduce.hpp"
#include "manyclass/step/implicit.hpp"

namespace manyclass {

// `scratch` has twice the size of p.
inline ClassTerms class_terms(std::span<float> p, std::span<float> scratch) {
  return {p, scratch.first(p.size()), scratch.subspan(p.size(), p.size())};
}

inline double loss_of(const SampledPoint& point, const BoundTerms& bound, const ClassTerms& terms) {
  for (std::size_t k = 0; k < point.size(); ++k) terms.log_cdfs[k] *= point.alpha[k];
  return -(bound.known + sum_of(terms.log_cdfs));
}

struct BoundSgd {
  static constexpr bool shrinks_first = false;

  static Move move(const SampledPoint& point, const BoundTerms& bound, const ClassTerms& terms) {
    const auto eta = static_cast<float>(point.eta);
    for (std::size_t k = 0; k < point.size(); ++k) terms.hazards[k] *= eta * point.alpha[k];
    const double wrong = sum_of(terms.hazards);
    return {wrong, wrong, loss_of(point, bound, terms)};
  }
};

// The proximal step, linearised. With h and c the expected hazards and their slopes, and delta_k = X_k p_k the fall of
// z_k, delta_y = X_y sum p the rise of z_y,
//
//   p_k = eta alpha_k (h_k - c_k (delta_k + delta_y)),
//
// linear in p and solved in closed form. Where hazards are not convex the linear step may go too far, so that it is
// cut: a logistic hazard is below e^(d - e), hence delta_k <= omega(log(eta alpha_k X_k E e^-e) + d_k), and so is
// delta_y for the sum of all; and omega(t) <= max(1, t).
template <bool convex_hazard>
struct BoundImplicit {
  static constexpr bool shrinks_first = true;

  static Move move(const SampledPoint& point, const BoundTerms& bound, const ClassTerms& terms) {
    const double loss = loss_of(point, bound, terms);
    const std::span<float> p = terms.hazards, c = terms.curvatures, most = terms.log_cdfs;

    const auto eta = static_cast<float>(point.eta);
    const auto same_x_sq = static_cast<float>(point.x_sq);
    const auto solve = [&](auto x_sq) {
      for (std::size_t k = 0; k < point.size(); ++k) {
        const float weight = eta * point.alpha[k];
        const float rate = weight / (1 + weight * c[k] * x_sq(k));
        p[k] *= rate;
        c[k] *= rate;
      }
      const double rise = point.x_sq * sum_of(p) / (1 + point.x_sq * sum_of(c));
      const auto delta_y = static_cast<float>(rise);
      for (std::size_t k = 0; k < point.size(); ++k) {
        const float move = p[k] - delta_y * c[k];
        p[k] = move > 0.0F ? move : 0.0F;
      }
      if constexpr (!convex_hazard) cut(point, bound.decay, x_sq, p, most);
    };
    if (point.x_sqs.empty()) {
      solve([&](std::size_t) { return same_x_sq; });
    } else {
      solve([&](std::size_t k) { return point.x_sqs[k]; });
    }
    const double wrong = sum_of(p);
    return {wrong, wrong, loss};
  }

 private:
  template <class Squares>
  static void cut(const SampledPoint& point, double decay, Squares x_sq, std::span<float> p, std::span<float> weights) {
    if (point.x_sq < smallest_x_sq) return;
    const auto log_decay = static_cast<float>(std::log(point.eta * decay) - point.label_score);
    for (std::size_t k = 0; k < point.size(); ++k) {
      // alpha = 0 or no features: -infinity, hence 1, and p is 0 or without effect
      const float log_bound = log_decay + point.scores[k] + vec::log(point.alpha[k] * x_sq(k));
      const float most = (log_bound > 1.0F ? log_bound : 1.0F) / x_sq(k);
      p[k] = p[k] < most ? p[k] : most;
      weights[k] = log_bound;
    }
    const float top = max_of(weights, 0.0F);
    for (float& weight : weights) weight = vec::normal_exp(weight - top);
    const double most = std::fmax(1, static_cast<double>(top) + std::log(sum_of(weights)));
    const double rise = point.x_sq * sum_of(p);
    if (rise <= most) return;
    const auto share = static_cast<float>(most / rise);
    for (float& p_k : p) p_k *= share;
  }
};

// The terms of a bound, after q of the point has moved: compiled for each bound, and not with each step that takes
// them.
using TermsOfBound = std::function<BoundTerms(const SampledPoint& point, Local q, const ClassTerms& terms, Isa isa)>;

template <class Bound>
TermsOfBound terms_of(const Bound& bound) {
  return [bound](const SampledPoint& point, Local q, const ClassTerms& terms, Isa isa) {
    BoundTerms sums;
    run_with(isa, [&] { sums = bound.terms(point, q, terms); });
    return sums;
  };
}

template <class Step>  // BoundSgd or BoundImplicit
class BoundStep final : public PointStep {
 public:
  explicit BoundStep(TermsOfBound terms) : terms_(std::move(terms)) {}

  Move solve(Isa isa, const SampledPoint& point, double& mu, std::span<float> p,
             std::span<float> scratch) const override {
    const ClassTerms terms = class_terms(p, scratch);
    const BoundTerms bound = terms_(point, {mu, *point.local_scale}, terms, isa);
    Move move{};
    run_with(isa, [&] { move = Step::move(point, bound, terms); });
    return move;
  }

  bool shrinks_first() const override { return Step::shrinks_first; }

 private:
  TermsOfBound terms_;
};

// The softmax: u moves as GumbelBound has it, and W to the proximal point at this u, which is that of the double sum
// with a u that is all but fixed.
struct GumbelImplicit {
  static constexpr bool shrinks_first = true;
  MovingAverage average;

  Move operator()(const SampledPoint& point, double& u, std::span<float> p, std::span<float> scratch) const {
    const SampledSum sum = sampled_sum(point, p);
    u = average.before(u, point, sum, p);
    SampledPoint fixed = point;
    fixed.eta_u = 1e-9 * std::fmin(1, point.eta);
    double almost_u = u;
    Move move = ImplicitDoubleSum{RootFinder::newton}(fixed, almost_u, p, scratch.first(p.size()));
    move.loss = GumbelBound::loss(u, sum.log_a);
    return move;
  }
};

}  // namespace manyclass
