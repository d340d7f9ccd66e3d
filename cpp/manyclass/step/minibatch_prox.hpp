// The implicit step of a batch of points: the proximal point of their sampled objective, found in their span.
//
//   argmin over (u, W, b)   c sum_i (u_i + e^-u_i d_i) + sum_k rho_k/2 |w_k|^2
//                           + (|W - W~|^2 + |b - b~|^2) / (2 eta) + |u - u~|^2 / (2 eta_u),
//   d_i = 1 + sum_{k != y_i} a_k e^{z_ik - z_{i,y_i}},   z_ik = x_i.w_k + b_k
//
// (Fagan & Iyengar 2018, F.3). Three reductions:
// - Ridge and proximity make one square: |w_k - s_k w~_k|^2 / (2 eta s_k), s_k = 1 / (1 + eta rho_k).
// - Stationarity is w_k = s_k w~_k - eta s_k sum_i g_ik x_i and b_k = b~_k - eta sum_i g_ik, g being the derivative in
//   z. So both follow from one vector q_k of length n, w_k = s_k (w~_k + X'q_k), b_k = b~_k + 1'q_k, with scores
//     z_k = z0_k + H_k q_k,   H_k = s_k X X' + constant 1 1',
//   and penalty q_k'H_k q_k / (2 eta). H may be singular (repeated or empty rows): what it maps to 0 moves nothing.
// - u_i is Lambert's function of d_i (their F.3.2). Here with L = log d and A = eta_u c:
//     u = u~ - A + omega,   omega = omega(log A + L + A - u~);
//   the minimum over u is a function phi of L with phi' = omega / eta_u, phi'' = omega / (1 + omega) / eta_u. It grows
//   as L^2, so that nothing overflows and any start will do (the paper solves a linear program for one, F.3.5).
//
// psi(q) = sum_i phi(L_i) + q'Hq / (2 eta) is minimised by Newton's method: with r = g + q / eta and B the block
// diagonal second derivative in z, (I / eta + B H) step = -r. That matrix is symmetric and positive in the inner
// product <a, b> = a'Hb, in which conjugate gradients solve it.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/math/wright_omega.hpp"

namespace manyclass {

// n points and the T classes that they touch. Arrays of T x n have a class in each row.
struct Minibatch {
  std::span<const double> gram;         // n x n, X X'
  std::span<const double> scores;       // T x n, z0: scores at the shrunk weights s_k w~_k
  std::span<const double> shrinks;      // T, s_k
  std::span<const double> log_weights;  // T, log a_k
  std::span<const std::size_t> labels;  // n, the label's place among the classes
  double constant;                      // 1 with an intercept, else 0
  double share;                         // c
  double eta;
  double eta_u;

  std::size_t n() const { return labels.size(); }
  std::size_t n_classes() const { return shrinks.size(); }
};

class MinibatchProx {
 public:
  struct Outcome {
    double loss;   // sum of the L_i before the step
    double moved;  // largest |change of a score|
    double error;  // bound on |(W, b) - exact| / |(W, b) - start|, norms weighted by 1 / s_k; 0 where nothing moves
  };

  // Leaves the coefficients in `q` (T x n) and the new values in `u`.
  //
  // psi is 1/eta-strongly convex in the norm |q|_H, in which its gradient has the norm |r|_H. So q is at most
  // eta |r|_H from the minimiser, and iterations end when that is below `tolerance` |q|_H, half a rounding of a float
  // weight. They end before only where rounding hides every descent, or after `most_steps`, each of which descends.
  Outcome solve(const Minibatch& batch, std::span<double> u, std::span<double> q) {
    batch_ = &batch;
    old_u_ = u;
    now_.resize(batch);
    next_.resize(batch);
    for (std::vector<double>* v : {&step_, &h_step_, &rest_, &h_rest_, &along_, &h_along_, &image_}) {
      v->assign(q.size(), 0);
    }
    evaluate(now_);
    double loss = 0;
    for (const double l : now_.log_d) loss += l;
    for (int steps = 0; steps < most_steps && !close() && descend(); ++steps) {
    }
    std::copy(now_.q.begin(), now_.q.end(), q.begin());
    std::copy(now_.u.begin(), now_.u.end(), u.begin());
    double moved = 0;
    for (const double z : now_.hq) moved = std::fmax(moved, std::fabs(z));
    return {loss, moved, now_.residual_sq > 0 ? batch.eta * std::sqrt(now_.residual_sq / now_.q_sq) : 0};
  }

 private:
  static constexpr double tolerance = 0x1p-25;
  // From far, Newton's method moves a decaying exponential by one unit a step: eta = e^100 would take about 100.
  static constexpr int most_steps = 200;
  static constexpr double shortest = 0x1p-40;  // share of a step below which rounding decides
  static constexpr double rounding = 0x1p-46;  // of psi, relative: a sum of some 2^6 terms

  // A point q and what the objective is there.
  struct At {
    std::vector<double> q, hq, p, r, hr;          // T x n; p: softmax, 0 at the label, whose share is 1 - sum p
    std::vector<double> u, omega, log_d;          // n
    double value = 0, q_sq = 0, residual_sq = 0;  // squares in the norm of H

    void resize(const Minibatch& batch) {
      for (std::vector<double>* v : {&q, &hq, &p, &r, &hr}) v->assign(batch.scores.size(), 0);
      for (std::vector<double>* v : {&u, &omega, &log_d}) v->assign(batch.n(), 0);
    }
  };

  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
    return sum;
  }

  bool close() const {
    return now_.residual_sq <= 0 || batch_->eta * std::sqrt(now_.residual_sq) <= tolerance * std::sqrt(now_.q_sq);
  }

  // out_k = H_k in_k
  void times_h(const std::vector<double>& in, std::vector<double>& out) const {
    const std::size_t n = batch_->n();
    for (std::size_t k = 0; k < batch_->n_classes(); ++k) {
      const double* v = &in[k * n];
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += v[i];
      for (std::size_t i = 0; i < n; ++i) {
        const double* row = &batch_->gram[i * n];
        double product = 0;
        for (std::size_t j = 0; j < n; ++j) product += row[j] * v[j];
        out[k * n + i] = batch_->shrinks[k] * product + batch_->constant * sum;
      }
    }
  }

  // Fills `at` from at.q.
  void evaluate(At& at) const {
    times_h(at.q, at.hq);
    at.q_sq = std::fmax(dot(at.q, at.hq), 0.0);
    at.value = at.q_sq / (2 * batch_->eta);
    for (std::size_t i = 0; i < batch_->n(); ++i) at.value += point(at, i);
    times_h(at.r, at.hr);
    at.residual_sq = std::fmax(dot(at.r, at.hr), 0.0);
  }

  // phi(L_i); fills p, r, u, omega, log_d of point i.
  double point(At& at, std::size_t i) const {
    const std::size_t n = batch_->n(), y = batch_->labels[i] * n + i;
    const double z_y = batch_->scores[y] + at.hq[y];
    double highest = 0;  // the 1 in d
    for (std::size_t k = 0, j = i; k < batch_->n_classes(); ++k, j += n) {
      at.p[j] = j == y ? 0 : batch_->log_weights[k] + (batch_->scores[j] + at.hq[j] - z_y);
      highest = std::fmax(highest, at.p[j]);
    }
    double wrong = 0;
    for (std::size_t k = 0, j = i; k < batch_->n_classes(); ++k, j += n) {
      at.p[j] = j == y ? 0 : std::exp(at.p[j] - highest);
      wrong += at.p[j];
    }
    const double sum = std::exp(-highest) + wrong;
    const double log_d = highest > 0 ? highest + std::log(sum) : std::log1p(wrong);
    const double c = batch_->share, a = batch_->eta_u * c;
    const double omega = wright_omega(std::log(a) + log_d + a - old_u_[i]);
    // The two forms are equal; each is the one that does not cancel.
    const double u = omega < 1 ? old_u_[i] - a + omega : log_d + std::log(a) - std::log(omega);
    const double slope = omega / batch_->eta_u;
    for (std::size_t k = 0, j = i; k < batch_->n_classes(); ++k, j += n) {
      at.p[j] /= sum;
      at.r[j] = slope * at.p[j] + at.q[j] / batch_->eta;
    }
    at.r[y] = at.q[y] / batch_->eta - slope * (wrong / sum);
    at.u[i] = u;
    at.omega[i] = omega;
    at.log_d[i] = log_d;
    const double du = u - old_u_[i];
    return c * u + slope + du * du / (2 * batch_->eta_u);
  }

  // out = in / eta + B h_in. With t_k = z'_k - z'_y and a = sum p t, B z' is p_k (phi'' a + phi' (t_k - a)) for the
  // wrong classes, and what makes the sum 0 for the label.
  void curve(const std::vector<double>& in, const std::vector<double>& h_in, std::vector<double>& out) const {
    const std::size_t n = batch_->n(), n_classes = batch_->n_classes();
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t y = batch_->labels[i] * n + i;
      const double slope = now_.omega[i] / batch_->eta_u, second = slope / (1 + now_.omega[i]);
      double a = 0, sum = 0;
      for (std::size_t k = 0, j = i; k < n_classes; ++k, j += n) a += now_.p[j] * (h_in[j] - h_in[y]);
      for (std::size_t k = 0, j = i; k < n_classes; ++k, j += n) {
        const double b = now_.p[j] * (second * a + slope * (h_in[j] - h_in[y] - a));
        sum += b;
        out[j] = b + in[j] / batch_->eta;
      }
      out[y] = in[y] / batch_->eta - sum;
    }
  }

  // Newton's step by conjugate gradients, to a relative residual that falls with the error, which keeps the convergence
  // quadratic. Cut short at any time, they leave a direction of descent.
  void find_step() {
    std::fill(step_.begin(), step_.end(), 0.0);
    std::fill(h_step_.begin(), h_step_.end(), 0.0);
    for (std::size_t j = 0; j < step_.size(); ++j) {
      rest_[j] = along_[j] = -now_.r[j];
      h_rest_[j] = h_along_[j] = -now_.hr[j];
    }
    const double error = now_.q_sq > 0 ? batch_->eta * std::sqrt(now_.residual_sq / now_.q_sq) : 1;
    const double wanted = std::fmin(0.1, std::fmax(error, 1e-10));
    double square = now_.residual_sq;
    for (std::size_t turn = 0; turn < step_.size() && square > wanted * wanted * now_.residual_sq; ++turn) {
      curve(along_, h_along_, image_);
      const double curvature = dot(h_along_, image_);
      if (!(curvature > 0)) break;
      const double length = square / curvature;
      for (std::size_t j = 0; j < step_.size(); ++j) {
        step_[j] += length * along_[j];
        h_step_[j] += length * h_along_[j];
        rest_[j] -= length * image_[j];
      }
      times_h(rest_, h_rest_);
      const double last = std::exchange(square, std::fmax(dot(rest_, h_rest_), 0.0));
      for (std::size_t j = 0; j < step_.size(); ++j) {
        along_[j] = rest_[j] + square / last * along_[j];
        h_along_[j] = h_rest_[j] + square / last * h_along_[j];
      }
    }
  }

  // One step, halved until psi falls by a share of what its slope promises or, where rounding hides that, the residual
  // halves. False where neither is found.
  bool descend() {
    find_step();
    const double slope = dot(now_.r, h_step_);
    for (double t = 1; t >= shortest; t /= 2) {
      for (std::size_t j = 0; j < step_.size(); ++j) next_.q[j] = now_.q[j] + t * step_[j];
      evaluate(next_);
      const double rise = next_.value - now_.value;
      if ((slope < 0 && rise < 0 && rise <= 1e-4 * t * slope) ||
          (next_.residual_sq <= now_.residual_sq / 4 && rise <= rounding * std::fabs(now_.value))) {
        std::swap(now_, next_);
        return true;
      }
    }
    return false;
  }

  const Minibatch* batch_ = nullptr;
  std::span<const double> old_u_;
  At now_, next_;
  std::vector<double> step_, h_step_, rest_, h_rest_, along_, h_along_, image_;
};

}  // namespace manyclass
