// Pick-all-labels as a sum over points and classes: the cross-entropy of several labels P with one number u a row,
//
//   sum_{l in P} [lse(z) - z_l] = s min_u {u + e^-u A - 1},   A = sum_P e^{z_l - r} + sum_{k not in P} e^{z_k - r},
//
// s = |P| and r the mean of z over P. Linear in A, hence unbiased where A is estimated with P exact and classes S drawn
// with weights alpha; jointly convex in u and z. Of one label it is the double sum (objective/double_sum.hpp). With
// s = 1 each row counts once, however many labels it has. (Menon et al., NeurIPS 2019: the loss summed over labels is
// consistent for precision at k, the one normalised by their number for recall at k, and neither is for both.)
//
// The value carried between visits is v = u + carry r: with carry = 1 it is log sum_k e^{z_k}, as in Raman et al.
#pragma once

#include <cmath>
#include <span>

#include "manyclass/objective/point.hpp"
#include "manyclass/objective/u_rules.hpp"

namespace manyclass {

template <RuleForU Rule>
struct PickAllSum {
  double carry;
  bool normalized;  // by the number of labels: s = 1
  Rule rule;

  // Moves v by the rule, writes df/dz, moves v along its gradient, and returns f at the u where the gradient is taken.
  // With p_k = s alpha_k e^{z_k - r - u} and G their sum over P and S: df/du = s - G at fixed z, and df/dz_k = p_k,
  // from which a label's loses (G + carry df/du) / |P|, since r (and with carry u) moves with its score.
  double operator()(const SampledPoint& point, std::span<const float> labels, double& v, LabelGradient& g) const {
    const SampledSum sum = sampled_sum(point, labels, g.negatives);
    const double u = rule.before(known(v - carry * point.label_score, sum.log_a), point, sum, g.negatives);
    v = u + carry * point.label_score;

    const auto n_labels = static_cast<double>(labels.size());
    const double scale = normalized ? 1 : n_labels;
    const double to_gradient = scale * std::exp(sum.shift - u);
    const auto factor = static_cast<float>(to_gradient);
    for (float& g_k : g.negatives) g_k *= factor;
    const double wrong = sum.scaled * to_gradient;
    const auto own = [&](float z) { return scale * std::exp((static_cast<double>(z) - point.label_score) - u); };
    double all_own = 0;
    for (const float z : labels) all_own += own(z);
    const double slope_u = (scale - all_own) - wrong;
    const double each = (wrong + carry * slope_u) / n_labels;
    // A label's own p comes beside the mean of all labels' first, so that nothing is lost where it is the only one.
    for (std::size_t l = 0; l < labels.size(); ++l) {
      g.positives[l] = static_cast<float>((n_labels * own(labels[l]) - all_own) / n_labels - each);
    }
    if (Rule::gradient_step) v -= point.eta_u * slope_u;
    return scale * (u - 1) + (all_own + wrong);
  }
};

}  // namespace manyclass
