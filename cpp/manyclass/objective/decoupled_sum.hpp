// The decoupled softmax as a sum over points and classes, with one number n a row (DEXML, arXiv 2310.10636, has the
// loss; the bound is ours): labels P of a row do not compete with each other,
//
//   sum_{l in P} [-z_l + log(e^{z_l} + N)] <= sum_{l in P} [softplus(n - z_l) + (N - e^n) / (e^{z_l} + e^n)],
//   N = sum_{k not in P} e^{z_k},
//
// the tangent in N at e^n of a concave function, equal at n = log N. It is linear in N, hence unbiased where N is
// estimated by classes S drawn with weights alpha. Of one label the left side is the log-loss.
#pragma once

#include <cmath>
#include <span>

#include "manyclass/math/logistic.hpp"
#include "manyclass/objective/point.hpp"
#include "manyclass/objective/sampled_sum.hpp"
#include "manyclass/objective/u_rules.hpp"

namespace manyclass {

template <RuleForU Rule>
struct DecoupledSum {
  // What rules take for log 0, the sum of a draw without wrong classes: e^-600 is still a number, and so is e^600.
  static constexpr double log_none = -600;
  Rule rule;

  // Moves n by the rule, writes df/dz, moves n along its gradient, and returns f at the n where the gradient is taken.
  // With sigma_l = 1 / (1 + e^{z_l - n}) and rho = N e^-n, df/dz_k = alpha_k e^{z_k - n} sum_l sigma_l for k in S,
  // df/dz_l = -sigma_l - (rho - 1) sigma_l (1 - sigma_l), and df/dn = -(rho - 1) sum_l sigma_l^2.
  //
  // Rules move n as they move u in u + e^-u N, whose minimum is at log N too: averages of N, steps in e^-n, bounds.
  double operator()(const SampledPoint& point, std::span<const float> labels, double& n, LabelGradient& g) const {
    const SampledSum sum = sum_above_none(point, g.negatives);
    n = std::fmax(rule.before(known(n, sum.log_a), point, sum, g.negatives), log_none);

    double sigmas = 0, squares = 0, value = 0;
    const double rho = sum.scaled * std::exp(sum.shift - n);
    for (std::size_t l = 0; l < labels.size(); ++l) {
      const double below = n - static_cast<double>(labels[l]);
      const double sigma = sigmoid(below), rest = sigmoid(-below);
      g.positives[l] = static_cast<float>(-sigma - (rho - 1) * sigma * rest);
      value += softplus(below) + (rho - 1) * sigma;
      sigmas += sigma;
      squares += sigma * sigma;
    }
    const auto factor = static_cast<float>(sigmas * std::exp(sum.shift - n));
    for (float& g_k : g.negatives) g_k *= factor;
    if (Rule::gradient_step) n += point.eta_u * (rho - 1) * squares;
    return value;
  }

 private:
  // N as the sum of a point without labels.
  static SampledSum sum_above_none(const SampledPoint& point, std::span<float> terms) {
    SampledSum sum = sum_without_label(point, terms);
    if (!(sum.scaled > 0)) sum.log_a = log_none;
    return sum;
  }
};

}  // namespace manyclass
