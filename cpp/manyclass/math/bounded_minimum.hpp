// The minimum of a function of one number on an interval, by values alone.
//
// R. Brent's method ("Algorithms for Minimization Without Derivatives", 1973, chapter 5): a parabola through the three
// best points says where to look next; where it is of no use, the larger part of the interval is cut in the golden ratio.
// It ends where the minimum of a function with one valley is known to `close`.
#pragma once

#include <cmath>
#include <limits>
#include <utility>

namespace manyclass {

struct BoundedMinimum {
  double at, value;
};

template <class F>
BoundedMinimum bounded_minimum(const F& f, double low, double high, double close) {
  const double golden = 0.5 * (3 - std::sqrt(5.0)), rounding = std::sqrt(std::numeric_limits<double>::epsilon());
  struct Point {
    double at, value;
  };
  double a = low, b = high, step = 0, before = 0;  // the last step, and the one before it
  const double first = a + golden * (b - a);
  Point best{first, f(first)}, second = best, third = best;
  while (true) {
    const double middle = 0.5 * (a + b), tolerance = rounding * std::fabs(best.at) + close / 3;
    if (std::fabs(best.at - middle) <= 2 * tolerance - 0.5 * (b - a)) return {best.at, best.value};
    bool by_parabola = false;
    if (std::fabs(before) > tolerance) {
      const double r = (best.at - second.at) * (best.value - third.value);
      const double s = (best.at - third.at) * (best.value - second.value);
      double p = (best.at - third.at) * s - (best.at - second.at) * r, q = 2 * (s - r);
      if (q > 0) p = -p;
      q = std::fabs(q);
      const double last = std::exchange(before, step);
      by_parabola = std::fabs(p) < std::fabs(0.5 * q * last) && p > q * (a - best.at) && p < q * (b - best.at);
      if (by_parabola) {
        step = p / q;
        const double next = best.at + step;
        if (next - a < 2 * tolerance || b - next < 2 * tolerance) step = middle >= best.at ? tolerance : -tolerance;
      }
    }
    if (!by_parabola) {
      before = best.at >= middle ? a - best.at : b - best.at;
      step = golden * before;
    }
    const double at = best.at + (step < 0 ? -1 : 1) * std::fmax(std::fabs(step), tolerance);
    const Point now{at, f(at)};
    if (now.value <= best.value) {
      (now.at >= best.at ? a : b) = best.at;
      third = std::exchange(second, std::exchange(best, now));
    } else {
      (now.at < best.at ? a : b) = now.at;
      if (now.value <= second.value || second.at == best.at) {
        third = std::exchange(second, now);
      } else if (now.value <= third.value || third.at == best.at || third.at == second.at) {
        third = now;
      }
    }
  }
}

}  // namespace manyclass
