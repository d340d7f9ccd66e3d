// The implicit step: the proximal point of the sampled double-sum objective, found as one root
// of a monotone function.
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
#include <cstring>
#include <memory>
#include <span>

#include "manyclass/math/elementary.hpp"
#include "manyclass/math/root.hpp"
#include "manyclass/math/wright_omega.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/objective/sampled_sum.hpp"
#include "manyclass/step/point_step.hpp"

namespace manyclass {

// delta_k(q) = omega(base_k - q): how far the step lowers z_k. Row k moves by delta_k / X_k.
struct Deltas {
  double moves;  // M = sum delta / X
  double slope;  // -dM/dq = sum delta / (1 + delta) / X
  double bend;   // d^2M/dq^2 = sum delta / (1 + delta)^3 / X

  // M(q + dq), to third order.
  double after(double dq) const { return moves - dq * (slope - 0.5 * dq * bend); }
};

// Below this move of q the deltas are carried along by a series; its first term left out is less than move^5 / 4, 2e-7.
inline constexpr double series_reach = 0x1p-4;

// Below this a move is none: see normal_exp.
inline constexpr float least_log_delta = -80.0F;

// delta(q + move) from delta(q): log delta + delta falls by `move`, see math/wright_omega.hpp.
inline float moved(float delta, float move) { return delta + delta * omega::relative_correction(-move, delta); }

inline Deltas sums_of(const SampledPoint& point, std::span<const float> delta) {
  const std::size_t size = delta.size();
  Deltas all{};
  // weights.operator()<T>(k) is the weight of class k or, for T = FourFloats, of four classes from k on.
  const auto add_up = [&](const auto& weights) {
    for (std::size_t k = 0; k < size;) {
      const std::size_t end = std::min(size, k + 32 * sum_lanes);  // 32 additions a lane: see sum_of
      FourFloats sums[n_fours] = {}, slopes[n_fours] = {}, bends[n_fours] = {};
      const auto add = [&]<class T>(std::size_t at, T& sum, T& slope, T& bend) {
        T d;
        std::memcpy(&d, delta.data() + at, sizeof d);
        const T move = d * weights.template operator()<T>(at), share = 1 / (1 + d);
        sum += move;
        slope += move * share;
        bend += move * share * share * share;
      };
      for (; k + sum_lanes <= end; k += sum_lanes) {
#pragma GCC unroll 4
        for (std::size_t f = 0; f < n_fours; ++f) add(k + 4 * f, sums[f], slopes[f], bends[f]);
      }
      float sum = sums[0][0], slope = slopes[0][0], bend = bends[0][0];
      for (; k < end; ++k) add(k, sum, slope, bend);
      sums[0][0] = sum;
      slopes[0][0] = slope;
      bends[0][0] = bend;
      all.moves += sum_of_lanes(sums);
      all.slope += sum_of_lanes(slopes);
      all.bend += sum_of_lanes(bends);
    }
  };
  if (point.x_sqs.empty()) {
    add_up([]<class T>(std::size_t) { return 1.0F; });
    return {all.moves / point.x_sq, all.slope / point.x_sq, all.bend / point.x_sq};
  }
  add_up([&]<class T>(std::size_t k) {
    T x_sq;
    std::memcpy(&x_sq, point.x_sqs.data() + k, sizeof x_sq);
    x_sq = 1 / x_sq;
    return x_sq;
  });
  return all;
}

// The deltas as q moves.
class MovingDeltas {
 public:
  MovingDeltas(const SampledPoint& point, std::span<const float> base, std::span<float> delta)
      : point_(point), base_(base), delta_(delta) {}

  Deltas at(double q) {
    const double move = q - q_;
    if (std::fabs(move) <= series_reach) {
      for (float& d : delta_) d = moved(d, static_cast<float>(move));
    } else {
      const auto shift = static_cast<float>(q);
      const auto rest = static_cast<float>(q - static_cast<double>(shift));
      for (std::size_t k = 0; k < delta_.size(); ++k) {
        const float x = (base_[k] - shift) - rest;
        const float delta = vec::wright_omega(x < least_log_delta ? least_log_delta : x);
        delta_[k] = x < least_log_delta ? 0.0F : delta;
      }
    }
    q_ = q;
    return sums_of(point_, delta_);
  }

  // p_k = delta_k / X_k, `move` farther on.
  void finish(double move) {
    const auto per_x = static_cast<float>(1 / point_.x_sq);
    for (std::size_t k = 0; k < delta_.size(); ++k) {
      delta_[k] = moved(delta_[k], static_cast<float>(move)) * (point_.x_sqs.empty() ? per_x : 1 / point_.x_sqs[k]);
    }
  }

 private:
  const SampledPoint& point_;
  std::span<const float> base_;
  std::span<float> delta_;
  double q_ = INFINITY;
};

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

// The root is taken as known when Halley's next move is below this: that move is then made by the series, which leaves
// an error of about its cube, 5e-7 here, what float scores carry.
inline constexpr double close_enough = 0x1p-7;
// Bisection has no derivatives to move with, hence goes on to the error itself.
inline constexpr double close_by_bisection = 0x1p-22;

inline double tolerance(RootFinder finder) { return finder == RootFinder::newton ? close_enough : close_by_bisection; }

// Below this, the smallest normal float, 1 / x_sq would overflow: such a point counts as one without features.
inline constexpr double smallest_x_sq = 0x1p-126;

// u of a point without features: no score can move, f(u) = u + e^-u (1 + sum alpha).
inline double implicit_u_alone(double u, double eta_u, double log_a) {
  return u - eta_u + wright_omega(std::log(eta_u) + log_a + eta_u - u);
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
    MovingDeltas deltas(point, base, p);
    Deltas at{};
    const auto h = [&](double q) -> Probe {
      at = deltas.at(q);
      u = q - point.x_sq * at.moves;
      // u >= 0 at the root. Below it e^-u would make Newton crawl; u grows at least as fast as q, so q - u is not
      // above the point where u = 0, from which on the root lies.
      if (u < 0) return {-1, 1, -u};
      const double pull = point.eta * std::exp(-u), rise = 1 + point.x_sq * at.slope;  // du/dq
      return {point.eta - pull - at.moves + tie * (u - old_u), (tie + pull) * rise + at.slope, 0,
              -pull * rise * rise - (tie + pull) * point.x_sq * at.bend - at.bend};
    };
    // The two cases of eq. 17-18 for any number of classes. If u falls, the moves sum to at most eta; if it rises,
    // u <= log A and they sum to at most eta + tie (log A - u~). In both q stays below `high`, and q >= u >= 0.
    const double high = std::fmax(old_u, log_a) + point.x_sq * (point.eta + tie * std::fmax(log_a - old_u, 0.0));
    const double dq = find_root(root, {0, high}, old_u, tolerance(root), h);
    const double label = at.after(dq);
    u += dq - point.x_sq * (label - at.moves);
    deltas.finish(dq);
    return {label, label, log_a};
  }
};

// Raman et al.'s form: v = u + z_y is carried, and f = v - z_y + e^{z_y - v} + sum_S alpha_k e^{z_k - v}. Given the new
// v every row moves on its own, so v itself is the unknown:
//   delta_k = omega(log(eta alpha_k X_k) + z_k - v),   delta_y = eta X - omega_y,
//   omega_y = omega(log(eta X) + z_y + eta X - v),
//   h(v) = eta - omega_y / X - sum delta_k / X_k + tie (v - v~) = 0.
// It is separable, hence a step can be made on a block of classes alone: those elsewhere add e^{o - v}, o being what is
// known of their log-sum, so that h has eta (1 - e^{o - v}) for eta; without the label in the block z_y is not there.
struct ImplicitRaman {
  static constexpr bool shrinks_first = true;
  RootFinder root;

  Move operator()(const SampledPoint& point, double& v, std::span<float> p, std::span<float> base) const {
    const SampledSum sampled = point.labelled ? sampled_sum(point, p) : sum_without_label(point, p);
    const double x_sq = point.x_sq, old_v = v, origin = point.labelled ? point.label_score : 0;
    const double log_a = log_add(point.others - origin, sampled.log_a);
    const double loss = point.labelled ? log_a : 0;  // of a point as a whole, where its label is
    if (x_sq < smallest_x_sq) {
      v = implicit_u_alone(v - origin, point.eta_u, log_a) + origin;
      return no_move(p, loss);
    }
    fill_base(point, 0, base);
    const double pull = point.eta * x_sq;  // the farthest that z_y can rise
    const double tie = point.eta / point.eta_u;
    MovingDeltas deltas(point, base, p);
    Deltas at{};
    double omega_y = 0;
    const auto h = [&](double q) -> Probe {
      at = deltas.at(q);
      v = q;
      const double elsewhere = point.eta * std::exp(point.others - q);
      if (point.labelled) omega_y = wright_omega(std::log(pull) + origin + pull - q);
      const double share = 1 / (1 + omega_y);
      return {point.eta - elsewhere - omega_y / x_sq - at.moves + tie * (q - old_v),
              elsewhere + omega_y * share / x_sq + at.slope + tie, 0,
              -elsewhere - omega_y * share * share * share / x_sq - at.bend};
    };
    // h(v~ - eta_u) <= 0 and h(o) <= 0, since both omegas are positive and v~ >= o. If v rises, e^v <= e^o + e^{z_y +
    // eta X} + sum alpha e^{z_k}.
    const double certain = point.labelled ? log_add(point.others, origin + pull) : point.others;
    const double most = log_add(sampled.shift + origin + std::log(sampled.scaled), certain);
    const Bracket bracket{std::fmax(old_v - point.eta_u, point.others), std::fmax(old_v, most)};
    const double dq = find_root(root, bracket, old_v, tolerance(root), h);
    v += dq;
    if (point.labelled) omega_y += omega_y * omega::relative_correction(-dq, omega_y);
    deltas.finish(dq);
    return {point.labelled ? (pull - omega_y) / x_sq : 0, at.after(dq), loss};
  }
};

// Implicit in W, Bregman in u: the penalty of u is eta/a times the Bregman divergence of e^-u, with a = eta_u, so that
//   (1 + a) e^-u = a (1 - S) + e^-u~,   S = sum_S alpha e^{d - u} at the new scores = moves / eta,
// with q and delta as in the proposed form. The left side falls with q and the right side rises. (Their logarithms
// bend at the root as 1 / (a (1 - S) + e^-u~), a large number: Newton's last move would leave an error of 1e-4.)
struct ImplicitBregman {
  static constexpr Facts facts{
      .name = "bregman",
      .sentence = "Implicit in W, a Bregman proximal step in e^-u.",
      .flags = {flag::u, flag::u_step, flag::implicit, flag::root},
  };
  static std::unique_ptr<const PointStep> make(double /*carry*/, RootFinder root) {
    return point_step(ImplicitBregman{root});
  }

  static constexpr bool shrinks_first = true;
  RootFinder root;

  Move operator()(const SampledPoint& point, double& u, std::span<float> p, std::span<float> base) const {
    const double log_a = sampled_sum(point, p).log_a;
    const double old_decay = std::exp(-u), old_u = u, a = point.eta_u;
    if (point.x_sq < smallest_x_sq) {
      u = log_add(0, std::log(a) + log_a) - log_add(std::log(a), -u);
      return no_move(p, log_a);
    }
    fill_base(point, point.label_score, base);
    MovingDeltas deltas(point, base, p);
    Deltas at{};
    const auto h = [&](double q) -> Probe {
      at = deltas.at(q);
      u = q - point.x_sq * at.moves;
      if (u < 0) return {-1, 1, -u};  // u >= 0 at the root: see ImplicitDoubleSum
      const double decay = (1 + a) * std::exp(-u), rise = 1 + point.x_sq * at.slope;
      return {a * (1 - at.moves / point.eta) + old_decay - decay, a * at.slope / point.eta + decay * rise, 0,
              -a * at.bend / point.eta - decay * (rise * rise + point.x_sq * at.bend)};
    };
    // S <= 1 + e^-u~ / a bounds the moves, and u <= max(u~, log A): e^u is an average of e^u~ and A.
    const double most = point.eta * (1 + old_decay / a);
    const double dq = find_root(root, {0, std::fmax(old_u, log_a) + point.x_sq * most}, old_u, tolerance(root), h);
    const double label = at.after(dq);
    u += dq - point.x_sq * (label - at.moves);
    deltas.finish(dq);
    return {label, label, log_a};
  }
};

// The family of both: v = u + a z_y is carried, for any a. With the unknown q = u + z_y - z~_y the deltas are those of
// the proposed form. The rest of the objective,
//   eta (u + e^-u) + (q - u)^2 / (2 X) + tie/2 (v - v~)^2,   v = (1 - a) u + a (z~_y + q),
// is least at the u with
//   b u - eta X e^-u = r,   b = 1 + tie X (1 - a)^2,   r = q - eta X - tie X (1 - a) (a (z~_y + q) - v~),
// which is u = r/b + omega(log(eta X / b) - r/b). What is left of the slope in q is the stationarity in v,
//   h(q) = eta (1 - e^-u) - sum delta_k / X_k + tie (v - v~) = 0,
// and rises with q since the objective is convex: the rate of all but the deltas is between its values for e^-u = 0 and
// e^-u = infinity.
struct ImplicitCarried {
  static constexpr bool shrinks_first = true;
  double carry;  // a
  RootFinder root;

  Move operator()(const SampledPoint& point, double& v, std::span<float> p, std::span<float> base) const {
    const double log_a = sampled_sum(point, p).log_a, old_v = v, x_sq = point.x_sq, eta = point.eta;
    const double old_u = v - carry * point.label_score;
    if (x_sq < smallest_x_sq) {
      v = implicit_u_alone(old_u, point.eta_u, log_a) + carry * point.label_score;
      return no_move(p, log_a);
    }
    fill_base(point, point.label_score, base);
    const double tie = eta / point.eta_u, rest = 1 - carry, pull = eta * x_sq;
    const double b = 1 + tie * x_sq * rest * rest, log_pull = std::log(pull / b);
    const double bend = 1 - tie * x_sq * carry * rest, of_label = 1 + tie * x_sq * carry * carry;
    MovingDeltas deltas(point, base, p);
    Deltas at{};
    double u = 0, decay = 0;  // and e^-u
    const auto move_to = [&](double q) {
      const double z_y = point.label_score + q;
      const double low = (q - pull - tie * x_sq * rest * (carry * z_y - old_v)) / b;
      const double omega = wright_omega(log_pull - low);  // pull e^-u / b
      u = omega > 1 ? log_pull - std::log(omega) : low + omega;
      decay = omega * b / pull;
      v = rest * u + carry * z_y;
    };
    const auto h = [&](double q) -> Probe {
      move_to(q);
      at = deltas.at(q);
      const double falls = eta * decay, share = 1 / (b + pull * decay), of_u = bend * share;
      return {eta - falls - at.moves + tie * (v - old_v), (tie + falls * of_label) * share + at.slope, 0,
              -falls * of_u * of_u * of_u - at.bend};
    };
    const double reach = -h(old_u).value / std::fmin(tie / b, of_label / x_sq);
    const Bracket bracket{old_u + std::fmin(reach, 0.0), old_u + std::fmax(reach, 0.0)};
    double q = old_u;
    const double dq = find_root(root, bracket, old_u, tolerance(root), [&](double next) { return h(q = next); });
    move_to(q + dq);
    deltas.finish(dq);
    const double moves = at.after(dq);
    // Both are the label's move: the one passes on what u errs times eta e^-u, the other what it errs over X.
    const double label = pull * decay > 1 ? (q + dq - u) / x_sq : rest * moves + carry * (eta - eta * decay);
    return {label, moves, log_a};
  }
};

// The implicit step of the double sum, whichever number is carried.
struct Implicit {
  static constexpr Facts facts{
      .name = "implicit",
      .sentence = "The proximal step of the sampled double sum in u and W, stable for any step size.",
      .source = "Fagan & Iyengar 2018, eq. 9-18",
      .flags = {flag::u, flag::u_step, flag::formulations, flag::implicit, flag::root, flag::bound},
  };
  static std::unique_ptr<const PointStep> make(double carry, RootFinder root) {
    if (carry == 0) return point_step(ImplicitDoubleSum{root});
    if (carry == 1) return point_step(ImplicitRaman{root});
    return point_step(ImplicitCarried{carry, root});
  }
};

}  // namespace manyclass
