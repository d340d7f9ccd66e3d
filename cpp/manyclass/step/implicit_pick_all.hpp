// The implicit step of pick-all-labels: the proximal point of the sampled sum in objective/pick_all_sum.hpp,
//
//   argmin over (u, w_k)   s (u + e^-u A) + |w - w~|^2 / (2 eta) + (u - u~)^2 / (2 eta_u).
//
// With X = |x|^2, c = eta s X, n = |P|, r the mean score of P, tildes before the step, and q_k = alpha_k e^{z_k - r -
// u} at the new scores and u (alpha = 1 on P), S their sum over all classes and S_P over P, stationarity reads
//
//   w_l -= eta s (q_l - S / n) x,   w_k -= eta s q_k x,   u = u~ - eta_u s (1 - S),
//   c q_l = omega(log c + z~_l - r~ + t - u),             t = c S_P / n,
//   c q_k = omega(log(c alpha_k) + z~_k - r~ - q),        q = u + c (S - S_P) / n.
//
// Given q the negatives and so u = q - c (S - S_P) / n are known, and t is the root of t = mean of c q_l: since the
// mean of z~_l - r~ is 0 it is where the labels' q_l have the geometric mean e^-u. Both roots are of monotone
// functions. Of one label t = c e^-u, and this is ImplicitDoubleSum.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "manyclass/math/root.hpp"
#include "manyclass/math/wright_omega.hpp"
#include "manyclass/objective/sampled_sum.hpp"
#include "manyclass/step/implicit.hpp"

namespace manyclass {

struct ImplicitPickAll {
  bool normalized;  // s = 1 instead of |P|

  double operator()(const SampledPoint& given, std::span<const float> labels, double& u, LabelGradient& g) const {
    const auto n = static_cast<double>(labels.size());
    const double s = normalized ? 1 : n;
    SampledPoint point = given;
    point.eta = given.eta * s;
    const double log_a = sampled_sum(point, labels, g.negatives).log_a;
    const double old_u = known(u, log_a);
    if (point.x_sq < smallest_x_sq) {  // no score can move
      u = implicit_u_alone(old_u, s * point.eta_u, log_a);
      std::ranges::fill(g.negatives, 0.0F);
      std::ranges::fill(g.positives, 0.0F);
      return s * (u - 1 + std::exp(log_a - u));
    }
    const double c = point.eta * point.x_sq, eta_u = s * point.eta_u;
    std::vector<float> base(point.size());
    fill_base(point, point.label_score, base);
    MovingDeltas deltas(point, base, g.negatives);
    Deltas at{};
    Labels own{};
    const double per_label = point.x_sq / n;  // u = q - per_label M, M = eta s (S - S_P)
    // h(q) = (u - u~) / eta_u + 1 - S, the stationarity in u. It increases with q.
    const double low = std::fmin(old_u, std::log(n));
    const auto h = [&](double q) -> Probe {
      at = deltas.at(q);
      u = q - per_label * at.moves;
      if (u < low) return {-1, 1, low - u};  // see ImplicitDoubleSum
      own = labels_at(labels, point.label_score, c, u);
      const double rise = 1 + per_label * at.slope;  // du/dq
      return {(u - old_u) / eta_u + 1 - own.sum - at.moves / point.eta,
              rise * (1 / eta_u - own.slope) + at.slope / point.eta};
    };
    // If u falls, S <= 1, and S_P >= n e^-u as the geometric mean of P's q_l is e^-u: u >= log n. If it rises, it is at
    // most log A, for the step does not raise A. In both 1 - S = (u~ - u) / eta_u bounds S - S_P.
    const double most = 1 + std::fmax(log_a - old_u, 0.0) / eta_u;
    const double high = std::fmax(std::fmax(old_u, log_a), low) + c / n * most;
    const double dq = find_root(RootFinder::newton, {low, high}, old_u, close_enough_here, h);
    const double moves = at.after(dq);
    u += dq - per_label * (moves - at.moves);
    deltas.finish(dq);
    own = labels_at(labels, point.label_score, c, u);
    const double all = own.sum + moves / point.eta, scale = s / point.eta;
    for (float& p : g.negatives) p = static_cast<float>(scale * static_cast<double>(p));
    for (std::size_t l = 0; l < labels.size(); ++l) {
      const double q = own.q(labels[l], point.label_score);
      g.positives[l] = static_cast<float>(s * ((n * q - own.sum) - moves / point.eta) / n);
    }
    return s * (u - 1 + all);
  }

 private:
  // Newton's last move is made by a series, and leaves an error of about the square of this.
  static constexpr double close_enough_here = 0x1p-16;

  // The labels' q_l at one u.
  struct Labels {
    double offset, c;  // c q_l = omega(offset + z~_l - r~)
    double sum;        // S_P
    double slope;      // dS_P/du < 0
    double q(float z, double mean) const { return wright_omega(offset + (static_cast<double>(z) - mean)) / c; }
  };

  static Labels labels_at(std::span<const float> labels, double mean, double c, double u) {
    const auto n = static_cast<double>(labels.size());
    const double middle = std::log(c) - u;  // the mean of log c q_l
    // Scores first, and then the mean: GCC 12 for ARM fails on a loop that finds both ends of the differences.
    const auto [least, most] = std::ranges::minmax(labels);
    const double lowest = static_cast<double>(least) - mean, highest = static_cast<double>(most) - mean;
    double sum = 0, shares = 0;
    const auto h = [&](double t) -> Probe {
      sum = shares = 0;
      for (const float z : labels) {
        const double w = wright_omega(middle + (static_cast<double>(z) - mean) + t);
        sum += w;
        shares += 1 / (1 + w);
      }
      return {t - sum / n, shares / n};
    };
    // At its ends all c q_l are above, or all below, their geometric mean.
    const double one = std::exp(middle);
    const Bracket bracket{std::fmax(one - highest, 0.0), one - lowest};
    const double dt = find_root(RootFinder::newton, bracket, one, one * 0x1p-40, h);
    (void)dt;
    // dt/du: (1 - mean of w / (1 + w)) dt = -(mean of w / (1 + w)) du.
    const double share = shares / n;
    const double t = sum / n;
    return {middle + t, c, n * t / c, -n * (1 - share) / (share * c)};
  }
};

}  // namespace manyclass
