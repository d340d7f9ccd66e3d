// The linear model z_k = g_k (r_k.x) + b_k: rows r_k of either storage, a scale g_k per class and an
// intercept b_k.
//
// The scale makes "shrink all of w_k" a single multiplication (Fagan & Iyengar 2018, F.3.3, end): ridge and
// projection touch no feature that the point lacks.
#pragma once

#include <cmath>
#include <span>

#include "manyclass/weights/class_range.hpp"

namespace manyclass {

// The mean of all w_k(t) from some time on, at the cost of the updates alone.
//
// Between two moves of row k each step adds g_k r_k to the sum, so the sum is gamma_k r_k + m_k with gamma_k the sum of
// the scales g_k: a move r += a x changes m by -gamma_k a x and leaves what is past as it was. Times are in passes.
template <class Rows>
struct Average {
  Rows moments;                        // m, as the weights are stored
  std::span<float> intercept_moments;  // K, or empty
  std::span<double> gamma;             // K
  std::span<double> updated;           // K, time up to which gamma_k is summed
  double start = 0;

  // Sums gamma up to `now` at rates `scale(c)`, and multiplies moves a of the rows by -gamma: the moves of m.
  template <class Classes, class Scale>
  void catch_up(const Classes& classes, const Scale& scale, double now, std::span<float> a) const {
    const auto sums = at_classes(gamma, classes);
    const auto times = at_classes(updated, classes);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      sums[c] += static_cast<double>(scale(c)) * (now - times[c]);
      times[c] = now;
      a[c] *= -static_cast<float>(sums[c]);
    }
  }

  // Moves all of the sum into m: what is past no longer depends on r.
  void settle(Index k, const Rows& rows) {
    double& sum = gamma[static_cast<std::size_t>(k)];
    moments.add_row(k, static_cast<float>(sum), rows);
    sum = 0;
  }
};

template <class Rows>
struct Linear {
  using Weight = typename Rows::Weight;

  Rows rows;
  std::span<Weight> intercept;  // K, or empty: no intercept
  std::span<Weight> scale;      // K, or empty: all ones

  template <class Row>
  float score(Row x, Index k) const {
    float z = rows.score(x, k);
    if (!scale.empty()) z *= scale[at(k)];
    if (!intercept.empty()) z += intercept[at(k)];
    return z;
  }

  template <class Row, class Classes>
  void scores(Row x, const Classes& classes, std::span<float> z) const {
    rows.scores(x, classes, z);
    if (!scale.empty()) {
      const auto g = at_classes(scale, classes);
      for (std::size_t c = 0; c < classes.size(); ++c) z[c] *= g[c];
    }
    if (!intercept.empty()) {
      const auto b = at_classes(intercept, classes);
      for (std::size_t c = 0; c < classes.size(); ++c) z[c] += b[c];
    }
  }

  template <class Row>
  void scores(Row x, const ClassLines& classes, std::span<float> z) const {
    for_runs(classes, [&](ClassRange run, std::size_t c) { scores(x, run, z.subspan(c, run.size())); });
  }

  // w_k += a x, b_k += a for the classes; `a` is scratch afterwards.
  template <class Row, class Classes>
  void add(Row x, const Classes& classes, std::span<float> a) {
    if (!intercept.empty()) {
      const auto b = at_classes(intercept, classes);
      for (std::size_t c = 0; c < classes.size(); ++c) b[c] += a[c];
    }
    if (!scale.empty()) {
      const auto g = at_classes(scale, classes);
      for (std::size_t c = 0; c < classes.size(); ++c) a[c] /= g[c];
    }
    rows.add(x, classes, a);
  }

  // The same, with the average kept; `now` is the time of the move.
  template <class Row, class Classes>
  void add(Row x, const Classes& classes, std::span<float> a, Average<Rows>& average, double now) {
    const auto age = static_cast<float>(now - average.start);
    if (!intercept.empty()) {
      const auto m = at_classes(average.intercept_moments, classes);
      for (std::size_t c = 0; c < classes.size(); ++c) m[c] -= age * a[c];
    }
    add(x, classes, a);  // leaves the moves of the rows r_k
    if (scale.empty()) {
      average.catch_up(classes, [](std::size_t) { return 1.0F; }, now, a);
    } else {
      average.catch_up(classes, [g = at_classes(scale, classes)](std::size_t c) { return g[c]; }, now, a);
    }
    average.moments.add(x, classes, a);
  }

  // w_k *= s_k. `average` may be null; if it is not, it is caught up to the present.
  template <class Classes>
  void shrink(const Classes& classes, std::span<const float> s, Average<Rows>* average) {
    const float smallest = average ? smallest_averaged_scale : smallest_scale;
    const auto g = at_classes(scale, classes);
    int small = 0;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      g[c] *= s[c];
      small += g[c] < smallest ? 1 : 0;
    }
    if (small == 0) return;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (g[c] >= smallest) continue;
      if (average) average->settle(classes[c], rows);
      rows.multiply(classes[c], g[c]);
      g[c] = 1;
    }
  }

 private:
  // A scale below it is multiplied into its row, which grows as the scale falls: this leaves both far from the ends of
  // single precision, 2^-126 and 2^127.
  static constexpr float smallest_scale = 0x1p-40F;
  // The average is what is left of gamma r and m, which grow against it as the scale falls: of the 24 bits of a float
  // at most 8 are lost so.
  static constexpr float smallest_averaged_scale = 0x1p-8F;

  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }
};

}  // namespace manyclass
