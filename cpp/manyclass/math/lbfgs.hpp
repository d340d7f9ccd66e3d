// The minimum of a smooth function of many numbers, from values and gradients alone: L-BFGS.
//
// The step is -H g, where H is an estimate of the inverse of the second derivatives by the last steps s and the changes
// y of the gradient along them: Algorithm 7.4 of Nocedal & Wright, "Numerical Optimization", 2006, from s'y / y'y times
// the unit matrix. How far to go along it is found by LineSearch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/math/line_search.hpp"
#include "manyclass/math/sums.hpp"

namespace manyclass {

// a += factor b
inline void add_times(std::span<double> a, double factor, std::span<const double> b) {
  for (std::size_t n = 0; n < a.size(); ++n) a[n] += factor * b[n];
}

class Lbfgs {
 public:
  // It begins at 0.
  explicit Lbfgs(std::size_t n) : at_(n), gradient_(n), next_(n), next_gradient_(n), direction_(n) {}

  std::span<double> at() { return at_; }  // to be written before the first iteration alone
  std::span<const double> at() const { return at_; }
  double value() const { return value_; }

  // The largest entry of the gradient, by its absolute value.
  double largest_slope() const {
    double largest = 0;
    for (const double slope : gradient_) largest = std::max(largest, std::fabs(slope));
    return largest;
  }

  // Makes an iteration, where f(x, gradient) writes the gradient and returns the value. Returns false, and stays, where
  // no entry of the gradient is above `tolerance`, or where rounding lets the function fall no further. What f throws
  // leaves the iterate of before.
  template <class F>
  bool iterate(const F& f, double tolerance) {
    if (!has_value_) {
      value_ = f(std::span<const double>(at_), std::span<double>(gradient_));
      has_value_ = true;
    }
    if (at_bottom_ || largest_slope() <= tolerance) return false;
    while (!moves(f)) {
      if (pairs_.empty()) return false;
      pairs_.clear();  // what it remembers may be of another place; then the step is down the gradient
    }
    return true;
  }

 private:
  // Pairs of s and y that are kept. Twenty reach the optimum of bibtex in 235 iterations, ten in 264: not worth twice
  // the memory.
  static constexpr std::size_t most_pairs = 10;
  static constexpr int most_looks = 20;  // along a line

  struct Pair {
    std::vector<double> step, change;
    double product;
  };

  // Writes -H g.
  void find_direction() {
    for (std::size_t n = 0; n < direction_.size(); ++n) direction_[n] = -gradient_[n];
    std::vector<double> factors(pairs_.size());
    for (std::size_t p = pairs_.size(); p-- > 0;) {
      factors[p] = sum_of_products(pairs_[p].step, direction_) / pairs_[p].product;
      add_times(direction_, -factors[p], pairs_[p].change);
    }
    if (pairs_.empty()) return;
    const Pair& last = pairs_.back();
    const double unit = last.product / sum_of_products(last.change, last.change);
    for (double& d : direction_) d *= unit;
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      const double factor = sum_of_products(pairs_[p].change, direction_) / pairs_[p].product;
      add_times(direction_, factors[p] - factor, pairs_[p].step);
    }
  }

  // Goes along the direction, and returns true, where the function falls.
  template <class F>
  bool moves(const F& f) {
    find_direction();
    const double slope = sum_of_products(gradient_, direction_);
    if (!(slope < 0)) return false;
    const double first = pairs_.empty() ? 1 / std::sqrt(-slope) : 1.0;  // nothing tells a length: a step of length 1
    LineSearch search(value_, slope, first);
    auto outcome = LineSearch::Outcome::goes_on;
    double value = value_, step = 0;
    for (int look = 0; look < most_looks && outcome == LineSearch::Outcome::goes_on; ++look) {
      step = search.step();
      for (std::size_t n = 0; n < at_.size(); ++n) next_[n] = at_[n] + step * direction_[n];
      value = f(std::span<const double>(next_), std::span<double>(next_gradient_));
      outcome = search.look(value, sum_of_products(next_gradient_, direction_));
    }
    if (outcome != LineSearch::Outcome::found && !(value < value_)) return false;
    remember(step, slope);
    at_bottom_ = value >= value_;
    value_ = value;
    std::swap(at_, next_);
    std::swap(gradient_, next_gradient_);
    return true;
  }

  // Keeps the pair of a step, whose memory is that of the oldest one; not one along which the slope hardly rises.
  void remember(double step, double slope) {
    const double rise = sum_of_products(next_gradient_, direction_) - slope;
    if (rise * step <= -std::numeric_limits<double>::epsilon() * slope * step) return;
    Pair kept;
    if (pairs_.size() == most_pairs) {
      kept = std::move(pairs_.front());
      pairs_.pop_front();
    }
    kept.step.resize(at_.size());
    kept.change.resize(at_.size());
    for (std::size_t n = 0; n < at_.size(); ++n) {
      kept.step[n] = step * direction_[n];
      kept.change[n] = next_gradient_[n] - gradient_[n];
    }
    kept.product = rise * step;
    pairs_.push_back(std::move(kept));
  }

  std::vector<double> at_, gradient_, next_, next_gradient_, direction_;
  std::deque<Pair> pairs_;
  double value_ = 0;
  bool has_value_ = false, at_bottom_ = false;
};

}  // namespace manyclass
