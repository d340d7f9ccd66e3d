// The implicit step: the proximal point of the sampled double-sum objective, found by one monotone scalar
// root.
//
//   argmin over (u, w_y, w_k)   u + e^-u (1 + sum_S alpha_k e^{d_k})
//                               + |w - w~|^2 / (2 eta) + (u - u~)^2 / (2 eta_u)
//
// (Fagan & Iyengar 2018, eq. 9-18, for one sampled class; here for any number of them.) With X = ||x||^2
// stationarity in w_k reads  w_k = w~_k - p_k x,  p_k = eta alpha_k e^{d_k - u}  at the *new* d_k and u, so
// delta_k = p_k X solves delta e^delta = eta alpha_k X e^(old d_k - rest), a Wright omega: nothing is
// exponentiated that could overflow.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "manyclass/math/elementary.hpp"
#include "manyclass/math/root.hpp"
#include "manyclass/math/wright_omega.hpp"
#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

// delta_k(q) = omega(base_k - q): how far the step lowers z_k. Row k moves by delta_k / X_k.
struct Deltas {
  double moves;  // sum delta / X
  double slope;  // sum delta / (1 + delta) / X = -d(moves)/dq
};

inline Deltas deltas_at(const SampledPoint& point, std::span<const float> base, double q, std::span<float> delta) {
  constexpr std::size_t lanes = sum_lanes;
  const std::size_t size = delta.size();
  const auto shift = static_cast<float>(q);
  const auto rest = static_cast<float>(q - static_cast<double>(shift));
  for (std::size_t k = 0; k < size; ++k) delta[k] = vec::wright_omega((base[k] - shift) - rest);
  double sum = 0, slope = 0;
  const auto add_up = [&](auto weight) {
    for (std::size_t k = 0; k < size;) {
      const std::size_t end = std::min(size, k + 32 * lanes);  // 32 additions a lane: see sum_of
      float sums[lanes] = {}, slopes[lanes] = {};
      for (; k + lanes <= end; k += lanes) {
        for (std::size_t l = 0; l < lanes; ++l) {
          const float move = delta[k + l] * weight(k + l);
          sums[l] += move;
          slopes[l] += move / (1 + delta[k + l]);
        }
      }
      for (; k < end; ++k) {
        sums[0] += delta[k] * weight(k);
        slopes[0] += delta[k] * weight(k) / (1 + delta[k]);
      }
      sum += sum_of_lanes(sums);
      slope += sum_of_lanes(slopes);
    }
  };
  if (point.x_sqs.empty()) {
    add_up([](std::size_t) { return 1.0F; });
    return {sum / point.x_sq, slope / point.x_sq};
  }
  add_up([&](std::size_t k) { return 1 / point.x_sqs[k]; });
  return {sum, slope};
}

// base_k = log(eta alpha_k X_k) + z_k - origin.
inline void fill_base(const SampledPoint& point, double origin, std::span<float> base) {
  if (point.x_sqs.empty()) {
    const auto offset = static_cast<float>(std::log(point.eta * point.x_sq) - origin);
    for (std::size_t k = 0; k < point.size(); ++k) base[k] = point.scores[k] + (offset + vec::log(point.alpha[k]));
    return;
  }
  const auto offset = static_cast<float>(std::log(point.eta) - origin);
  for (std::size_t k = 0; k < point.size(); ++k) {
    base[k] = point.scores[k] + (offset + vec::log(point.alpha[k] * point.x_sqs[k]));
  }
}

// The root is taken as known when Newton's next move is below this: that move is then applied to every delta
// to first order, which leaves a relative error of at most its square, 2e-7 here, about what float scores
// carry.
inline constexpr double close_enough = 0x1p-11;
// Bisection has no slope to correct with, hence goes on to the error itself.
inline constexpr double close_by_bisection = 0x1p-22;

inline double tolerance(RootFinder finder) { return finder == RootFinder::newton ? close_enough : close_by_bisection; }

// Below this, the smallest normal float, 1 / x_sq would overflow: such a point counts as one without features.
inline constexpr double smallest_x_sq = 0x1p-126;

// u of a point without features: no score can move, f(u) = u + e^-u (1 + sum alpha).
inline double implicit_u_alone(double u, double eta_u, double log_a) {
  return u - eta_u + wright_omega(std::log(eta_u) + log_a + eta_u - u);
}

// p_k = delta_k / X_k, after the last Newton move `dq`: d omega = -dq delta / (1 + delta).
inline void finish(const SampledPoint& point, double dq, std::span<float> delta) {
  const auto move = static_cast<float>(dq);
  const auto per_x = static_cast<float>(1 / point.x_sq);
  for (std::size_t k = 0; k < delta.size(); ++k) {
    delta[k] = (delta[k] - move * delta[k] / (1 + delta[k])) * (point.x_sqs.empty() ? per_x : 1 / point.x_sqs[k]);
  }
}

// What every implicit step answers where a point has no features: scores cannot move.
inline Move no_move(std::span<float> p, double log_a) {
  std::fill(p.begin(), p.end(), 0.0F);
  return {0, 0, log_a};
}

// The proposed form: u and d_k = z_k - z_y. The unknown is q = u + delta_y, delta_y = X_y sum_S delta_k / X_k.
struct ImplicitDoubleSum {
  static constexpr bool shrinks_first = true;
  RootFinder root;

  // `base` is scratch of the selection's size.
  Move operator()(const SampledPoint& point, double& u, std::span<float> p, std::span<float> base) const {
    const double log_a = sampled_sum(point, p).log_a, old_u = u;
    if (point.x_sq < smallest_x_sq) {
      u = implicit_u_alone(u, point.eta_u, log_a);
      return no_move(p, log_a);
    }
    fill_base(point, point.label_score, base);
    // h(q) = 0 with u = q - delta_y: eta times the stationarity in u. It increases, from below 0 to above.
    const double tie = point.eta / point.eta_u;
    Deltas at{};
    const auto h = [&](double q) -> Probe {
      at = deltas_at(point, base, q, p);
      u = q - point.x_sq * at.moves;
      // u >= 0 at the root. Below it e^-u would make Newton crawl; u grows at least as fast as q, so q - u is not
      // above the point where u = 0, from which on the root lies.
      if (u < 0) return {-1, 1, -u};
      const double decay = std::exp(-u);
      return {point.eta * (1 - decay) - at.moves + tie * (u - old_u),
              (tie + point.eta * decay) * (1 + point.x_sq * at.slope) + at.slope};
    };
    // The two cases of eq. 17-18 for any number of classes. If u falls, the moves sum to at most eta; if it rises,
    // u <= log A and they sum to at most eta + tie (log A - u~). In both q stays below `high`, and q >= u >= 0.
    const double high = std::fmax(old_u, log_a) + point.x_sq * (point.eta + tie * std::fmax(log_a - old_u, 0.0));
    const double dq = find_root(root, {0, high}, old_u, tolerance(root), h);
    u += dq * (1 + point.x_sq * at.slope);
    const double label = at.moves - dq * at.slope;
    finish(point, dq, p);
    return {label, label, log_a};
  }
};

// Raman et al.'s form: v = u + z_y is carried, and f = v - z_y + e^{z_y - v} + sum_S alpha_k e^{z_k - v}. Given the new
// v every row moves on its own, so v itself is the unknown:
//   delta_k = omega(log(eta alpha_k X_k) + z_k - v),   delta_y = eta X - omega_y,
//   omega_y = omega(log(eta X) + z_y + eta X - v),
//   h(v) = eta - omega_y / X - sum delta_k / X_k + tie (v - v~) = 0.
struct ImplicitRaman {
  static constexpr bool shrinks_first = true;
  RootFinder root;

  Move operator()(const SampledPoint& point, double& v, std::span<float> p, std::span<float> base) const {
    const SampledSum sampled = sampled_sum(point, p);
    const double log_a = sampled.log_a, x_sq = point.x_sq, old_v = v, z_y = point.label_score;
    if (x_sq < smallest_x_sq) {
      v = implicit_u_alone(v - z_y, point.eta_u, log_a) + z_y;
      return no_move(p, log_a);
    }
    fill_base(point, 0, base);
    const double pull = point.eta * x_sq;  // the farthest that z_y can rise
    const double tie = point.eta / point.eta_u;
    Deltas at{};
    double omega_y = 0;
    const auto h = [&](double q) -> Probe {
      at = deltas_at(point, base, q, p);
      v = q;
      omega_y = wright_omega(std::log(pull) + z_y + pull - q);
      return {point.eta - omega_y / x_sq - at.moves + tie * (q - old_v),
              omega_y / (1 + omega_y) / x_sq + at.slope + tie};
    };
    // h(v~ - eta_u) <= 0 since both omegas are positive. If v rises, e^v <= e^{z_y + eta X} + sum alpha e^{z_k}.
    const double wrong = sampled.shift + z_y + std::log(sampled.scaled);
    const Bracket bracket{old_v - point.eta_u, std::fmax(old_v, log_add(wrong, z_y + pull))};
    const double dq = find_root(root, bracket, old_v, tolerance(root), h);
    v += dq;
    omega_y -= dq * omega_y / (1 + omega_y);
    finish(point, dq, p);
    return {(pull - omega_y) / x_sq, at.moves - dq * at.slope, log_a};
  }
};

// Implicit in W, Bregman in u: the penalty of u is eta/a times the Bregman divergence of e^-u, so that
//   (1 + a) e^-u = a (1 - S) + e^-u~,   S = sum_S alpha e^{d - u} at the new scores = moves / eta,
// with q and delta as in the proposed form. The left side falls with q and the right side rises. (Their logarithms
// bend at the root as 1 / (a (1 - S) + e^-u~), a large number: Newton's last move would leave an error of 1e-4.)
struct ImplicitBregman {
  static constexpr bool shrinks_first = true;
  RootFinder root;
  double a;

  Move operator()(const SampledPoint& point, double& u, std::span<float> p, std::span<float> base) const {
    const double log_a = sampled_sum(point, p).log_a;
    const double old_decay = std::exp(-u), old_u = u;
    if (point.x_sq < smallest_x_sq) {
      u = log_add(0, std::log(a) + log_a) - log_add(std::log(a), -u);
      return no_move(p, log_a);
    }
    fill_base(point, point.label_score, base);
    Deltas at{};
    const auto h = [&](double q) -> Probe {
      at = deltas_at(point, base, q, p);
      u = q - point.x_sq * at.moves;
      if (u < 0) return {-1, 1, -u};  // u >= 0 at the root: see ImplicitDoubleSum
      const double decay = (1 + a) * std::exp(-u);
      return {a * (1 - at.moves / point.eta) + old_decay - decay,
              a * at.slope / point.eta + decay * (1 + point.x_sq * at.slope)};
    };
    // S <= 1 + e^-u~ / a bounds the moves, and u <= max(u~, log A): e^u is an average of e^u~ and A.
    const double most = point.eta * (1 + old_decay / a);
    const double dq = find_root(root, {0, std::fmax(old_u, log_a) + point.x_sq * most}, old_u, tolerance(root), h);
    u += dq * (1 + point.x_sq * at.slope);
    const double label = at.moves - dq * at.slope;
    finish(point, dq, p);
    return {label, label, log_a};
  }
};

}  // namespace manyclass
