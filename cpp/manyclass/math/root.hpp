// The root of a strictly increasing function of one variable.
#pragma once

#include <array>
#include <cmath>

#include "manyclass/core/facts.hpp"

namespace manyclass {

enum class RootFinder { newton, bisection };
inline constexpr std::array<Facts, 2> root_finder_facts{{
    {.name = "newton", .sentence = "Halley's or Newton's moves, kept in a bracket."},
    {.name = "bisection", .sentence = "Halving of the bracket, for comparison."},
}};

struct Bracket {
  double low, high;
};

// What f(q) answers: its value, its slope, a jump >= 0 where q is known to be at least that far below the root, and its
// second derivative, which is 0 where it is not known.
struct Probe {
  double value;
  double slope;
  double jump = 0;
  double bend = 0;
};

// Halley's move to the root. Without a bend it is Newton's; where the parabola has no root near, it is at most twice
// Newton's.
inline double move_to_root(const Probe& at) {
  const double newton = -at.value / at.slope;
  return newton / std::fmax(1 + newton * at.bend / (2 * at.slope), 0.5);
}

// Calls f(q) until the root is known to `close`, and returns root - last q, to first order; |result| <= close.
//
// f was last called at that q, so the caller can correct by the result what f left behind. Halley's (or Newton's) moves
// are made while they stay inside the bracket and every second one halves |f|. Otherwise the bracket is halved. The
// search always ends: when a step is short enough, or when the bracket cannot be halved in floating point.
template <class F>
double find_root(RootFinder finder, Bracket b, double start, double close, F&& f) {
  double q = std::fmin(std::fmax(start, b.low), b.high);
  double last_value = INFINITY;
  bool slow = false;
  while (true) {
    const Probe at = f(q);
    (at.value < 0 ? b.low : b.high) = q;
    if (at.value == 0) return 0;
    const double middle = b.low + (b.high - b.low) / 2;
    double next;
    if (finder == RootFinder::bisection) {
      if (b.high - b.low <= close) return middle - q;
      next = middle;
    } else {
      const bool halved = std::fabs(at.value) <= 0.5 * last_value;
      last_value = std::fabs(at.value);
      next = q + (at.jump > 0 ? at.jump : move_to_root(at));
      if (at.jump == 0 && std::fabs(next - q) <= close && next >= b.low && next <= b.high) return next - q;
      // NaN fails both comparisons, so a slope that overflowed also leads to the middle.
      if (!(next > b.low && next < b.high) || (slow && !halved && at.jump == 0)) next = middle;
      slow = !halved;
    }
    if (!(next > b.low && next < b.high)) return 0;  // so also where the bracket or f is not a number
    q = next;
  }
}

}  // namespace manyclass
