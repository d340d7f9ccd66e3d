// The minimum of a smooth function of a few numbers, each of which has an interval.
//
// Steps are those of BFGS (Nocedal & Wright, Numerical Optimization, 2006, chapter 6). A number at an end of its
// interval that the slope draws beyond it stays there; the others move by the step of their part of the Hessian's
// estimate B, cut at the ends (Bertsekas, SIAM J. Control Optim. 1982). B stays positive definite, as a move along
// which the slope does not rise leaves it as it is; for a convex function that never comes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace manyclass {

struct Box {
  std::vector<double> low, high;  // of each number; may be infinite

  double held(std::size_t i, double x) const { return std::clamp(x, low[i], high[i]); }
};

// When to stop: at slopes, cut at the ends, of at most `slope`; behind a step whose gain is less than `gain` times the
// value, or times 1 where that is more; or where `most_looks` along a step find no gain, as rounding allows none.
struct CloseEnough {
  double gain = 1e-6;
  double slope = 1e-5;
  int most_looks = 5;
};

struct BoxMinimum {
  std::vector<double> at;
  double value = 0;
};

namespace box {

// The estimate of the Hessian.
class Curvatures {
 public:
  explicit Curvatures(std::size_t n) : n_(n), b_(n * n) {
    for (std::size_t i = 0; i < n; ++i) b_[i * n + i] = 1;
  }

  bool has_seen() const { return seen_; }

  // -B^-1 g over the numbers that are free, 0 for the others: Gauss's elimination, which needs no pivots.
  std::vector<double> step(std::span<const double> g, const std::vector<bool>& is_free) const {
    std::vector<double> a(b_), d(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) {
        if (!is_free[i] || !is_free[j]) a[i * n_ + j] = i == j ? 1 : 0;
      }
      d[i] = is_free[i] ? -g[i] : 0;
    }
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t k = i + 1; k < n_; ++k) {
        const double factor = a[k * n_ + i] / a[i * n_ + i];
        for (std::size_t j = i; j < n_; ++j) a[k * n_ + j] -= factor * a[i * n_ + j];
        d[k] -= factor * d[i];
      }
    }
    for (std::size_t i = n_; i-- > 0;) {
      for (std::size_t j = i + 1; j < n_; ++j) d[i] -= a[i * n_ + j] * d[j];
      d[i] /= a[i * n_ + i];
    }
    return d;
  }

  // Takes in that a move by s has changed the slopes by y.
  void update(std::span<const double> s, std::span<const double> y) {
    double sy = 0, yy = 0, ss = 0;
    for (std::size_t i = 0; i < n_; ++i) sy += s[i] * y[i], yy += y[i] * y[i], ss += s[i] * s[i];
    constexpr double flat = 1e-10;  // a cosine: the slopes' own rounding
    if (!(sy > flat * std::sqrt(yy * ss))) return;
    if (!std::exchange(seen_, true)) {
      for (std::size_t i = 0; i < n_; ++i) b_[i * n_ + i] = yy / sy;
    }
    std::vector<double> bs(n_);
    double sbs = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) bs[i] += b_[i * n_ + j] * s[j];
      sbs += s[i] * bs[i];
    }
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) b_[i * n_ + j] += y[i] * y[j] / sy - bs[i] * bs[j] / sbs;
    }
  }

 private:
  std::size_t n_;
  std::vector<double> b_;
  bool seen_ = false;
};

}  // namespace box

// f(x, slopes) writes the slopes and returns the value. The search ends, as each of its steps but the last gains at
// least a certain share of the value, or of 1.
template <class F>
BoxMinimum minimum_in_box(F&& f, std::span<const double> start, const Box& box, const CloseEnough& close) {
  constexpr double least_gain = 1e-4;  // of that by the slope (Armijo)
  const std::size_t n = start.size();
  std::vector<double> x(n), g(n), next(n), next_g(n), moves(n), changes(n);
  std::vector<bool> is_free(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = box.held(i, start[i]);
  box::Curvatures curvatures(n);
  double value = f(std::span<const double>(x), std::span<double>(g));
  while (true) {
    double largest = 0, length = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double move = box.held(i, x[i] - g[i]) - x[i];
      is_free[i] = move != 0;
      largest = std::fmax(largest, std::fabs(move));
      length += is_free[i] ? g[i] * g[i] : 0;
    }
    if (!(largest > close.slope)) break;
    const std::vector<double> d = curvatures.step(g, is_free);
    double t = curvatures.has_seen() ? 1 : std::fmin(1, 1 / std::sqrt(length)), found = value;
    bool gains = false;
    for (int look = 0; look < close.most_looks && !gains; ++look) {
      double descent = 0;
      for (std::size_t i = 0; i < n; ++i) {
        next[i] = box.held(i, x[i] + t * d[i]);
        moves[i] = next[i] - x[i];
        descent += g[i] * moves[i];
      }
      found = f(std::span<const double>(next), std::span<double>(next_g));
      gains = descent < 0 && found <= value + least_gain * descent;
      // The minimum of the parabola through both values with the slope at the first one; a NaN halves the step.
      const double by_parabola = -descent / (2 * (found - value - descent));
      if (!gains) t *= by_parabola >= 0.1 && by_parabola <= 0.5 ? by_parabola : by_parabola < 0.1 ? 0.1 : 0.5;
    }
    if (!gains) break;
    for (std::size_t i = 0; i < n; ++i) changes[i] = next_g[i] - g[i];
    curvatures.update(moves, changes);
    const double gain = value - found, unit = std::fmax(1, std::fmax(std::fabs(value), std::fabs(found)));
    value = found;
    std::swap(x, next);
    std::swap(g, next_g);
    if (gain <= close.gain * unit) break;
  }
  return {std::move(x), value};
}

}  // namespace manyclass
