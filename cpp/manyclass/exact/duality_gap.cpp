// The dual of the ridge-penalised softmax.
//
// The primal is, with z_i = W x_i + b and weights r_i of the points,
//
//   F(W, b) = 1/N sum_i r_i [log sum_k e^{z_ik} - z_{i,y_i}] + alpha/2 |W|^2.
//
// For any P whose rows p_i are probabilities, log sum_k e^{z_ik} >= p_i.z_i + H(p_i), H being the entropy (the
// conjugate of log-sum-exp; equality at the softmax). With the 0-1 matrix Y of the labels, therefore,
//
//   F(W, b) >= 1/N sum_i r_i H(p_i) - <W, G> - 1/N b.(Y - P)'r + alpha/2 |W|^2,    G = (Y - P)' diag(r) X / N,
//
// (G being 0 where W has no weight) and the smallest value of the right side over W is taken at W = G / alpha: D(P) =
// 1/N sum_i r_i H(p_i) - |G|^2 / (2 alpha). Over b it is minus infinity unless (Y - P)'r = 0: where intercepts are
// learned, the columns of P must have the totals n_k of the labels. P is made of the model in three steps, each of
// which keeps D(P) a bound:
//
// 1. b_k += log(n_k / s_k), s being the totals of the softmax, a few times. Each round is one step of iterative
//    proportional fitting; where it ends, b is best for this W.
// 2. The surplus still left in some columns is moved to those that lack it (balanced_softmax.hpp): now the totals are
//    right to rounding, whatever W was.
// 3. P and Y both have these totals, so P_t = (1 - t) P + t Y does for 0 <= t <= 1. It has G_t = (1 - t) G, and H needs
//    only H(p_i) and the label's probability, so the best t costs no pass. D(Y) = 0 makes the bound at least 0.
#include "manyclass/exact/duality_gap.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "manyclass/exact/balanced_softmax.hpp"
#include "manyclass/exact/pair_scores.hpp"

namespace manyclass {

namespace {

// Rounds of step 1, one pass each, and the share of all probability in the wrong class that ends them: moving it in
// step 2 then costs some 1e-5 nats.
constexpr int most_rounds = 8;
constexpr double small_surplus = 1e-6;

double times_log(double x) { return x > 0 ? x * std::log(x) : 0; }

// D((1 - t) P + t Y) as a function of t in [0, 1], which is concave: entropy is, and minus a square is.
class DualTowardsLabels {
 public:
  // `penalty` is |G|^2 / (2 alpha).
  DualTowardsLabels(std::span<const double> entropies, std::span<const double> label_probabilities,
                    std::span<const double> weights, double penalty)
      : entropies_(entropies), p_(label_probabilities), weights_(weights), penalty_(penalty) {}

  double largest() const {
    constexpr int halvings = 30;  // to 1e-9
    double low = 0, high = 1;
    for (int n = 0; n < halvings; ++n) {
      const double middle = (low + high) / 2;
      (slope(middle) > 0 ? low : high) = middle;
    }
    return std::max({at(0), at((low + high) / 2), 0.0});
  }

 private:
  double at(double t) const {
    const double s = 1 - t;
    return mean([&](std::size_t i) {
             const double rest = entropies_[i] + times_log(p_[i]);  // of the wrong classes
             return s * rest - times_log(s) * (1 - p_[i]) - times_log(s * p_[i] + t);
           }) -
           s * s * penalty_;
  }
  double slope(double t) const {
    const double s = 1 - t;
    return mean([&](std::size_t i) {
             const double rest = entropies_[i] + times_log(p_[i]);
             return (1 - p_[i]) * (std::log(s) - std::log(s * p_[i] + t)) - rest;
           }) +
           2 * s * penalty_;
  }
  template <class Term>
  double mean(const Term& term) const {
    double sum = 0, total = 0;
    for (std::size_t i = 0; i < p_.size(); ++i) {
      const double r = weights_.empty() ? 1 : weights_[i];
      sum += r * term(i);
      total += r;
    }
    return sum / total;
  }

  std::span<const double> entropies_, p_, weights_;
  double penalty_;
};

}  // namespace

template <class Data, class Layout>
PrimalDual duality_gap(const Data& x, std::span<const Index> labels, const DoubleModel<Layout>& given,
                       const DualityQuestion& q) {
  const std::size_t n = labels.size(), n_classes = static_cast<std::size_t>(given.n_classes);
  std::vector<double> intercept(n_classes), normalizers(n), losses(n), totals(n_classes), wanted(n_classes);
  std::ranges::copy(given.intercept, intercept.begin());
  const DoubleModel<Layout> model{given.layout, intercept, given.n_classes};
  const auto weight = [&](std::size_t i) { return q.weights.empty() ? 1.0 : q.weights[i]; };
  const auto sum_up = [&] {
    softmax_totals(x, labels, q.weights, model, q.n_threads, q.isa, normalizers, losses, totals);
  };

  sum_up();
  double loss = 0, of_weights = 0;
  for (std::size_t i = 0; i < n; ++i) {
    loss += weight(i) * losses[i];
    of_weights += weight(i);
    wanted[static_cast<std::size_t>(labels[i])] += weight(i);
  }
  const double primal = loss / of_weights + q.alpha / 2 * q.squares;
  if (q.alpha == 0) return {primal, 0};

  std::vector<double> keep(n_classes, 1.0), fill(n_classes, 0.0);
  if (q.fit_intercept) {
    for (int round = 0; round < most_rounds; ++round) {
      double surplus = 0;
      for (std::size_t k = 0; k < n_classes; ++k) surplus += std::max(totals[k] - wanted[k], 0.0);
      if (surplus <= small_surplus * static_cast<double>(n)) break;
      for (std::size_t k = 0; k < n_classes; ++k) {
        if (wanted[k] > 0 && totals[k] > 0) intercept[k] += std::log(wanted[k] / totals[k]);
      }
      sum_up();
    }
    double lack = 0;
    for (std::size_t k = 0; k < n_classes; ++k) lack += std::max(wanted[k] - totals[k], 0.0);
    for (std::size_t k = 0; k < n_classes; ++k) {
      if (totals[k] > wanted[k]) keep[k] = wanted[k] / totals[k];
      fill[k] = std::max(wanted[k] - totals[k], 0.0) / std::max(lack, std::numeric_limits<double>::min());
    }
  }

  std::vector<double> entropies(n), label_probabilities(n);
  const double residual = balanced_softmax(x, labels, q.weights, model, {normalizers, keep, fill}, q.n_threads, q.isa,
                                           entropies, label_probabilities);
  const double penalty = residual / (2 * q.alpha * static_cast<double>(n) * static_cast<double>(n));
  return {primal, DualTowardsLabels(entropies, label_probabilities, q.weights, penalty).largest()};
}

template PrimalDual duality_gap(const CsrView&, std::span<const Index>, const DoubleModel<FeatureMajor<float>>&,
                                const DualityQuestion&);
template PrimalDual duality_gap(const CsrView&, std::span<const Index>, const DoubleModel<PairMajor>&,
                                const DualityQuestion&);
template PrimalDual duality_gap(const DenseView&, std::span<const Index>, const DoubleModel<ClassMajor<float>>&,
                                const DualityQuestion&);

}  // namespace manyclass
