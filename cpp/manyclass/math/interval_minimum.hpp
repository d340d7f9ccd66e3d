// The minimum of a function of one number on an interval, without derivatives (Brent, Algorithms for Minimization
// without Derivatives, 1973, chapter 5).
//
// Three of the points where the function was looked at are remembered. The next point is where the parabola through
// them is least, if that is inside the interval and the steps still shrink; else it divides the longer part by the
// golden section. Each look makes the interval smaller, so that the search ends.
#pragma once

#include <cmath>
#include <utility>

namespace manyclass {

struct Interval {
  double low, high;

  double middle() const { return 0.5 * (low + high); }
};

struct IntervalMinimum {
  double at, value;
};

namespace interval {

// The three best points so far, and the interval that is left.
struct Looks {
  Interval left;
  IntervalMinimum best, second, third;

  // Takes in what was found at a point beside the best one.
  void take(const IntervalMinimum& found) {
    const bool better = found.value <= best.value, above = found.at >= best.at;
    const double end = better ? best.at : found.at;
    (above == better ? left.low : left.high) = end;
    if (better) {
      third = std::exchange(second, std::exchange(best, found));
    } else if (found.value <= second.value || second.at == best.at) {
      third = std::exchange(second, found);
    } else if (found.value <= third.value || third.at == best.at || third.at == second.at) {
      third = found;
    }
  }

  // Whether the parabola through the three points has its least value inside the interval, less than half of `before`
  // away from the best one; writes how far.
  bool by_parabola(double before, double& step) const {
    const double to_second = best.at - second.at, to_third = best.at - third.at;
    const double r = to_second * (best.value - third.value), q = to_third * (best.value - second.value);
    const double over = 2 * (q - r), p = (to_third * q - to_second * r) * (over > 0 ? -1 : 1), size = std::fabs(over);
    if (!(std::fabs(p) < std::fabs(0.5 * size * before) && p > size * (left.low - best.at) &&
          p < size * (left.high - best.at))) {
      return false;
    }
    step = p / size;
    return true;
  }
};

}  // namespace interval

// Where f is least, to `precision` and not nearer than the root of a rounding; a local minimum where there are several.
template <class F>
IntervalMinimum minimum_on(const F& f, const Interval& whole, double precision) {
  const double golden = 0.5 * (3 - std::sqrt(5.0)), rounding = std::sqrt(2.2e-16);
  constexpr int most_looks = 500;  // far more than an interval of doubles has halvings
  const double first = whole.low + golden * (whole.high - whole.low);
  const IntervalMinimum begin{first, f(first)};
  interval::Looks looks{whole, begin, begin, begin};
  double step = 0, before = 0;  // the last step, and that before it
  for (int n = 1; n < most_looks; ++n) {
    const double x = looks.best.at, middle = looks.left.middle();
    const double least = rounding * std::fabs(x) + precision / 3;  // a shorter step tells nothing
    if (!(std::fabs(x - middle) > 2 * least - 0.5 * (looks.left.high - looks.left.low))) break;
    const bool tries = std::fabs(before) > least;
    const double last = tries ? std::exchange(before, step) : before;
    if (tries && looks.by_parabola(last, step)) {
      const double at = x + step;
      if (at - looks.left.low < 2 * least || looks.left.high - at < 2 * least) step = middle >= x ? least : -least;
    } else {
      before = (x >= middle ? looks.left.low : looks.left.high) - x;
      step = golden * before;
    }
    const double at = x + (step < 0 ? -1 : 1) * std::fmax(std::fabs(step), least);
    looks.take({at, f(at)});
  }
  return looks.best;
}

}  // namespace manyclass
