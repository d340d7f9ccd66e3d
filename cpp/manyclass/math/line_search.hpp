// A step along a line at which a smooth function has fallen enough and its slope has become small enough.
//
// With f(t) along the line and f'(0) < 0, the search ends at a t > 0 with
//
//   f(t) <= f(0) + decrease f'(0) t   and   |f'(t)| <= flatness |f'(0)|,
//
// by the method of J. Moré and D. Thuente, "Line search algorithms with guaranteed sufficient decrease", ACM
// Transactions on Mathematical Software 20, 1994: an interval that has such a step shrinks around it, and the next step
// is the minimum of a cubic or of a parabola through what is known. While no step has fallen enough, the interval is
// that of f(t) - f(0) - decrease f'(0) t.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

namespace manyclass {

class LineSearch {
 public:
  // What is known at a step: the value of the function, and its slope along the line.
  struct Point {
    double step, value, slope;
  };

  enum class Outcome { goes_on, found, no_further };

  // `value` and `slope` are those at 0, and `first` is the step to be tried first.
  LineSearch(double value, double slope, double first)
      : start_{0, value, slope}, best_(start_), other_(start_), step_(first), high_(first + widening * first) {}

  // The step at which to look next.
  double step() const { return step_; }

  // Takes the value and the slope at step().
  Outcome look(double value, double slope) {
    if (!std::isfinite(value) || !std::isfinite(slope)) return Outcome::no_further;
    const Point now{step_, value, slope};
    const double fall = decrease * start_.slope, enough = start_.value + step_ * fall;
    const bool falls = value <= enough;
    if (falls && slope >= 0) has_fallen_ = true;
    if (falls && std::fabs(slope) <= -flatness * start_.slope) return Outcome::found;
    if (bracketed_ && (step_ <= low_ || step_ >= high_ || high_ - low_ <= narrowest * high_)) {
      return Outcome::no_further;
    }
    if (step_ >= longest) return Outcome::no_further;
    if (!has_fallen_ && value <= best_.value && !falls) {
      best_ = less(best_, fall), other_ = less(other_, fall);
      narrow(less(now, fall));
      best_ = less(best_, -fall), other_ = less(other_, -fall);
    } else {
      narrow(now);
    }
    if (bracketed_) {
      const double width = std::fabs(other_.step - best_.step);
      if (width >= 0.66 * before_last_) step_ = best_.step + 0.5 * (other_.step - best_.step);
      before_last_ = std::exchange(last_, width);
      low_ = std::min(best_.step, other_.step);
      high_ = std::max(best_.step, other_.step);
    } else {
      low_ = step_ + 1.1 * (step_ - best_.step);
      high_ = step_ + widening * (step_ - best_.step);
    }
    step_ = std::clamp(step_, 0.0, longest);
    if (bracketed_ && (step_ <= low_ || step_ >= high_ || high_ - low_ <= narrowest * high_)) step_ = best_.step;
    return Outcome::goes_on;
  }

 private:
  static constexpr double decrease = 1e-3, flatness = 0.9;  // c_1 and c_2 of the conditions of Wolfe
  static constexpr double narrowest = 0.1;                  // of an interval, in units of its larger end
  static constexpr double longest = 1e10, widening = 4;

  // A point of f(t) - fall t.
  static Point less(const Point& p, double fall) { return {p.step, p.value - p.step * fall, p.slope - fall}; }

  // The minimum of the cubic through two points, as a share of the way from a to b.
  struct Cubic {
    double share;
    bool has_minimum;
  };
  static Cubic cubic(const Point& a, const Point& b) {
    const double theta = 3 * (a.value - b.value) / (b.step - a.step) + a.slope + b.slope;
    const double unit = std::max({std::fabs(theta), std::fabs(a.slope), std::fabs(b.slope)});
    const double square = (theta / unit) * (theta / unit) - (a.slope / unit) * (b.slope / unit);
    const double gamma = (b.step < a.step ? -unit : unit) * std::sqrt(std::max(0.0, square));
    const double share = (gamma - a.slope + theta) / (gamma - a.slope + gamma + b.slope);
    return {share, gamma != 0};
  }
  static double between(const Point& a, const Point& b, double share) { return a.step + share * (b.step - a.step); }

  // Takes a point into the interval, and sets the next step; sections 4 and 2 of the paper.
  void narrow(const Point& now) {
    const bool turns = now.slope * best_.slope < 0;
    double next;
    if (now.value > best_.value) {  // case 1: the minimum lies between
      const double by_cubic = between(best_, now, cubic(best_, now).share);
      const double chord = (best_.value - now.value) / (now.step - best_.step);
      const double by_parabola = between(best_, now, best_.slope / (chord + best_.slope) / 2);
      const bool nearer = std::fabs(by_cubic - best_.step) <= std::fabs(by_parabola - best_.step);
      next = nearer ? by_cubic : by_cubic + (by_parabola - by_cubic) / 2;
      bracketed_ = true;
    } else if (turns) {  // case 2: so it does
      const double by_cubic = between(now, best_, cubic(now, best_).share), by_slopes = secant(now);
      next = std::fabs(by_cubic - now.step) > std::fabs(by_slopes - now.step) ? by_cubic : by_slopes;
      bracketed_ = true;
    } else if (std::fabs(now.slope) < std::fabs(best_.slope)) {  // case 3: the slope becomes flatter
      const Cubic found = cubic(now, best_);
      const bool beyond = found.share < 0 && found.has_minimum;
      const double by_cubic = beyond ? between(now, best_, found.share) : now.step > best_.step ? high_ : low_;
      const double by_slopes = secant(now);
      const bool nearer = std::fabs(by_cubic - now.step) < std::fabs(by_slopes - now.step);
      next = nearer == bracketed_ ? by_cubic : by_slopes;
      if (bracketed_) {
        const double most = between(now, other_, 0.66);
        next = now.step > best_.step ? std::min(most, next) : std::max(most, next);
      } else {
        next = std::clamp(next, low_, high_);
      }
    } else if (bracketed_) {  // case 4: it becomes steeper
      next = between(now, other_, cubic(now, other_).share);
    } else {
      next = now.step > best_.step ? high_ : low_;
    }
    if (now.value > best_.value) {
      other_ = now;
    } else {
      if (turns) other_ = best_;
      best_ = now;
    }
    step_ = next;
  }

  // Where the slopes at a point and at the best one say that the slope is 0.
  double secant(const Point& now) const { return between(now, best_, now.slope / (now.slope - best_.slope)); }

  Point start_, best_, other_;
  double step_, low_ = 0, high_;
  double last_ = longest, before_last_ = 2 * longest;  // widths of the interval
  bool bracketed_ = false, has_fallen_ = false;
};

}  // namespace manyclass
