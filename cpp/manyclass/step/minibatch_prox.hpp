// The implicit step of a batch of points: the proximal point of their sampled objective, found in their span.
//
//   argmin over (u, W, b)   sum_i r_i [c (u_i + e^-u_i d_i) + (u_i - u~_i)^2 / (2 eta_u)]
//                           + sum_k rho_k/2 |w_k|^2 + (|W - W~|^2 + |b - b~|^2) / (2 eta),
//   d_i = 1 + sum_{k != y_i} a_k e^{z_ik - z_{i,y_i}},   z_ik = x_i.w_k + b_k
//
// (Fagan & Iyengar 2018, F.3, for weights r_i = 1; a weight leaves what u_i does at given scores as it is). Three
// reductions:
// - Ridge and proximity make one square: |w_k - s_k w~_k|^2 / (2 eta s_k), s_k = 1 / (1 + eta rho_k).
// - The rest sees W through X W' alone, so w_k = s_k w~_k + V a_k with V an orthonormal basis of the span of the
//   points. From X X' = L L' it is X = L V', and the scores are z_k = z0_k + L a_k + t_k, t_k being the move of b_k, a
//   constant feature without ridge. The Cholesky factor L is pivoted and has only as many columns as there are
//   independent points, whose rows make L_p: V a = X_p'c with L_p'c = a, so that W moves along points alone.
// - u_i is Lambert's function of d_i (their F.3.2). Here with l = log d and A = eta_u c:
//     u = u~ - A + omega,   omega = omega(log A + l + A - u~);
//   the minimum over u is a function phi of l with phi' = omega / eta_u, phi'' = omega / (1 + omega) / eta_u. It grows
//   as l^2, so that nothing overflows and any start will do (the paper solves a linear program for one, F.3.5).
//
// psi(v) = sum_i r_i phi(l_i) + sum_k v_k'D_k v_k / 2, v_k = (a_k, t_k), D_k = (1/(eta s_k), ..., 1/eta), is minimised
// by Newton's method: with M = (L, 1) and B the block diagonal second derivative in z, (D + M'BM) step = -(M'g + D v)
// by conjugate gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/core/facts.hpp"
#include "manyclass/math/pivoted_cholesky.hpp"
#include "manyclass/math/wright_omega.hpp"

namespace manyclass {

// n points and the T classes that they touch. Arrays of T x n have a class in each row.
struct Minibatch {
  std::span<const double> gram;         // n x n, X X'
  std::span<const double> scores;       // T x n, z0: scores at the shrunk weights s_k w~_k
  std::span<const double> shrinks;      // T, s_k
  std::span<const double> log_weights;  // T, log a_k
  std::span<const std::size_t> labels;  // n, the label's place among the classes
  std::span<const double> weights;      // n, r_i
  bool has_intercept;
  double share;  // c
  double eta;
  double eta_u;

  std::size_t n() const { return labels.size(); }
  std::size_t n_classes() const { return shrinks.size(); }
};

class MinibatchProx {
 public:
  static constexpr Facts facts{
      .name = "minibatch_implicit",
      .sentence = "The proximal step of a whole batch of points at once.",
      .source = "Fagan & Iyengar 2018, F.3",
      .flags = {flag::u, flag::u_step, flag::implicit, flag::batch},
  };

  struct Outcome {
    double loss;   // sum of the r_i l_i before the step
    double moved;  // largest |change of a score|
    double error;  // bound on |v - exact| / |v| in the norm of D; 0 where nothing moves
  };

  // Leaves in `c` (T x n) the moves w_k = s_k w~_k + X'c_k, in `t` those of the intercepts, in `u` the new values.
  //
  // psi is 1-strongly convex in the norm of D, so v is at most the dual norm of its gradient from the minimiser.
  // Iterations end when that is below `tolerance` |v|, half a rounding of a float weight. They end before only where
  // rounding hides every descent (beyond eta = 10^8 or so: the bound then is pessimistic, for it counts on no curvature
  // but 1 / eta), or after `most_steps`, each of which descends.
  Outcome solve(const Minibatch& batch, std::span<double> u, std::span<double> c, std::span<double> t) {
    batch_ = &batch;
    old_u_ = u;
    factor_.factorise(batch.gram, batch.n());
    width_ = factor_.rank() + (batch.has_intercept ? 1 : 0);
    columns_ = factor_.columns();
    columns_.resize(width_ * batch.n(), 1.0);
    const std::size_t size = batch.n_classes() * width_;
    now_.resize(batch, size);
    next_.resize(batch, size);
    for (std::vector<double>* v : {&step_, &rest_, &along_, &scaled_, &image_, &diagonal_}) v->assign(size, 0);
    for (std::vector<double>* v : {&z_along_, &b_along_}) v->assign(batch.scores.size(), 0);
    evaluate(now_);
    double loss = 0;
    for (std::size_t i = 0; i < batch.n(); ++i) loss += batch.weights[i] * now_.log_d[i];
    for (int steps = 0; steps < most_steps && !close() && descend(); ++steps) {
    }
    std::copy(now_.u.begin(), now_.u.end(), u.begin());
    for (std::size_t k = 0; k < batch.n_classes(); ++k) {
      factor_.solve_transposed(now_.v.data() + k * width_, c.subspan(k * batch.n(), batch.n()));
      t[k] = batch.has_intercept ? now_.v[k * width_ + factor_.rank()] : 0;
    }
    double moved = 0;
    for (const double z : now_.moves) moved = std::fmax(moved, std::fabs(z));
    return {loss, moved, now_.dual_sq > 0 ? std::sqrt(now_.dual_sq / now_.v_sq) : 0};
  }

 private:
  static constexpr double tolerance = 0x1p-25;
  // From far, Newton's method moves a decaying exponential by one unit a step: eta = e^100 would take about 100.
  static constexpr int most_steps = 200;
  static constexpr double shortest = 0x1p-40;  // share of a step below which rounding decides
  static constexpr double rounding = 0x1p-46;  // of psi, relative: a sum of some 2^6 terms

  // A point v and what the objective is there.
  struct At {
    std::vector<double> v, gradient;      // T x width
    std::vector<double> moves, p, g;      // T x n; moves: M v; p: softmax, 0 at the label, whose share is 1 - sum p
    std::vector<double> u, omega, log_d;  // n
    double value = 0, v_sq = 0, dual_sq = 0;

    void resize(const Minibatch& batch, std::size_t size) {
      for (std::vector<double>* a : {&v, &gradient}) a->assign(size, 0);
      for (std::vector<double>* a : {&moves, &p, &g}) a->assign(batch.scores.size(), 0);
      for (std::vector<double>* a : {&u, &omega, &log_d}) a->assign(batch.n(), 0);
    }
  };

  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
    return sum;
  }

  bool close() const { return now_.dual_sq <= tolerance * tolerance * now_.v_sq; }

  // D of class k, column l.
  double stiffness(std::size_t k, std::size_t l) const {
    return 1 / batch_->eta / (l < factor_.rank() ? batch_->shrinks[k] : 1.0);
  }

  // z_k = M v_k
  void to_scores(const std::vector<double>& v, std::vector<double>& z) const {
    const std::size_t n = batch_->n();
    std::fill(z.begin(), z.end(), 0.0);
    for (std::size_t k = 0; k < batch_->n_classes(); ++k) {
      for (std::size_t l = 0; l < width_; ++l) {
        for (std::size_t i = 0; i < n; ++i) z[k * n + i] += v[k * width_ + l] * columns_[l * n + i];
      }
    }
  }

  // out_k = M'g_k + D_k v_k
  void from_scores(const std::vector<double>& g, const std::vector<double>& v, std::vector<double>& out) const {
    const std::size_t n = batch_->n();
    for (std::size_t k = 0; k < batch_->n_classes(); ++k) {
      for (std::size_t l = 0; l < width_; ++l) {
        double sum = stiffness(k, l) * v[k * width_ + l];
        for (std::size_t i = 0; i < n; ++i) sum += g[k * n + i] * columns_[l * n + i];
        out[k * width_ + l] = sum;
      }
    }
  }

  // Fills `at` from at.v.
  void evaluate(At& at) const {
    to_scores(at.v, at.moves);
    at.value = 0;
    for (std::size_t i = 0; i < batch_->n(); ++i) at.value += point(at, i);
    from_scores(at.g, at.v, at.gradient);
    at.v_sq = at.dual_sq = 0;
    for (std::size_t k = 0, j = 0; k < batch_->n_classes(); ++k) {
      for (std::size_t l = 0; l < width_; ++l, ++j) {
        const double d = stiffness(k, l);
        at.v_sq += at.v[j] * at.v[j] * d;
        at.dual_sq += at.gradient[j] * at.gradient[j] / d;
      }
    }
    at.value += at.v_sq / 2;
  }

  // r_i phi(l_i); fills p, g, u, omega, log_d of point i.
  double point(At& at, std::size_t i) const {
    const std::size_t n = batch_->n(), y = batch_->labels[i] * n + i;
    const double z_y = batch_->scores[y] + at.moves[y];
    double highest = 0;  // the 1 in d
    for (std::size_t k = 0, j = i; k < batch_->n_classes(); ++k, j += n) {
      at.p[j] = j == y ? 0 : batch_->log_weights[k] + (batch_->scores[j] + at.moves[j] - z_y);
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
    const double weight = batch_->weights[i], unweighted = omega / batch_->eta_u, slope = weight * unweighted;
    for (std::size_t k = 0, j = i; k < batch_->n_classes(); ++k, j += n) {
      at.p[j] /= sum;
      at.g[j] = slope * at.p[j];
    }
    at.g[y] = -slope * (wrong / sum);
    at.u[i] = u;
    at.omega[i] = omega;
    at.log_d[i] = log_d;
    const double du = u - old_u_[i];
    return weight * (c * u + unweighted + du * du / (2 * batch_->eta_u));
  }

  // r_i phi'(l_i)
  double slope_of(std::size_t i) const { return batch_->weights[i] * (now_.omega[i] / batch_->eta_u); }

  // out = B z. With d_k = z_k - z_y and a = sum p d, that is p_k (phi'' a + phi' (d_k - a)) for the wrong classes, and
  // what makes the sum 0 for the label.
  void curve(const std::vector<double>& z, std::vector<double>& out) const {
    const std::size_t n = batch_->n(), n_classes = batch_->n_classes();
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t y = batch_->labels[i] * n + i;
      const double slope = slope_of(i), second = slope / (1 + now_.omega[i]);
      double a = 0, sum = 0;
      for (std::size_t k = 0, j = i; k < n_classes; ++k, j += n) a += now_.p[j] * (z[j] - z[y]);
      for (std::size_t k = 0, j = i; k < n_classes; ++k, j += n) {
        out[j] = now_.p[j] * (second * a + slope * (z[j] - z[y] - a));
        sum += out[j];
      }
      out[y] = -sum;
    }
  }

  // The diagonal of D + M'BM, which preconditions: classes differ in p by orders of magnitude.
  void find_diagonal() {
    const std::size_t n = batch_->n(), n_classes = batch_->n_classes();
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t y = batch_->labels[i] * n + i;
      const double slope = slope_of(i), second = slope / (1 + now_.omega[i]);
      double wrong = 0;
      for (std::size_t k = 0, j = i; k < n_classes; ++k, j += n) {
        const double p = now_.p[j];
        wrong += p;
        b_along_[j] = p * (second * p + slope * (1 - p));
      }
      b_along_[y] = wrong * (second * wrong + slope * std::fmax(1 - wrong, 0.0));
    }
    for (std::size_t k = 0, j = 0; k < n_classes; ++k) {
      for (std::size_t l = 0; l < width_; ++l, ++j) {
        double sum = stiffness(k, l);
        for (std::size_t i = 0; i < n; ++i) sum += b_along_[k * n + i] * columns_[l * n + i] * columns_[l * n + i];
        diagonal_[j] = sum;
      }
    }
  }

  // Newton's step by conjugate gradients, to a relative residual that falls with the error, which keeps the convergence
  // quadratic. Cut short at any time, they leave a direction of descent.
  void find_step() {
    find_diagonal();
    for (std::size_t j = 0; j < step_.size(); ++j) {
      step_[j] = 0;
      rest_[j] = -now_.gradient[j];
      along_[j] = scaled_[j] = rest_[j] / diagonal_[j];
    }
    const double error = now_.v_sq > 0 ? std::sqrt(now_.dual_sq / now_.v_sq) : 1;
    const double wanted = std::fmin(0.1, std::fmax(error, 1e-10));
    const double start = dot(rest_, scaled_);
    double square = start;
    for (std::size_t turn = 0; turn < 2 * step_.size() && square > wanted * wanted * start; ++turn) {
      to_scores(along_, z_along_);
      curve(z_along_, b_along_);
      from_scores(b_along_, along_, image_);
      const double curvature = dot(along_, image_);
      if (!(curvature > 0)) break;
      const double length = square / curvature;
      for (std::size_t j = 0; j < step_.size(); ++j) {
        step_[j] += length * along_[j];
        rest_[j] -= length * image_[j];
        scaled_[j] = rest_[j] / diagonal_[j];
      }
      const double last = std::exchange(square, dot(rest_, scaled_));
      for (std::size_t j = 0; j < step_.size(); ++j) along_[j] = scaled_[j] + square / last * along_[j];
    }
  }

  // One step, halved until psi falls by a share of what its slope promises or, where rounding hides that, the gradient
  // halves. False where neither is found.
  bool descend() {
    find_step();
    const double slope = dot(now_.gradient, step_);
    for (double t = 1; t >= shortest; t /= 2) {
      for (std::size_t j = 0; j < step_.size(); ++j) next_.v[j] = now_.v[j] + t * step_[j];
      evaluate(next_);
      const double rise = next_.value - now_.value;
      if ((slope < 0 && rise < 0 && rise <= 1e-4 * t * slope) ||
          (next_.dual_sq <= now_.dual_sq / 4 && rise <= rounding * std::fabs(now_.value))) {
        std::swap(now_, next_);
        return true;
      }
    }
    return false;
  }

  const Minibatch* batch_ = nullptr;
  std::span<const double> old_u_;
  PivotedCholesky factor_;       // of the Gram matrix
  std::vector<double> columns_;  // M, a column after the other
  std::size_t width_ = 0;
  At now_, next_;
  std::vector<double> step_, rest_, along_, scaled_, image_, diagonal_, z_along_, b_along_;
};

}  // namespace manyclass
