// The linear model z_k = g_k (r_k.x) + b_k: rows r_k of either storage, a scale g_k per class and an intercept b_k.
//
// The scale makes "shrink all of w_k" a single multiplication (Fagan & Iyengar 2018, F.3.3, end). So ridge and
// projection touch no feature that the point lacks.
#pragma once

#include <cmath>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

// A scale below this one is multiplied into its row, which grows as the scale falls. So both stay far from the ends of
// single precision, 2^-126 and 2^127.
inline constexpr float smallest_scale = 0x1p-40F;
// Threads that race must not meet a row whose scale is being multiplied into it: a move that was divided by the scale
// of before is then 2^40 times too long. So they begin with scales of at least this, which no pass takes to the
// smallest one unless it shrinks a row by a factor of a million.
inline constexpr float smallest_at_start = 0x1p-20F;

template <class Rows>
struct Linear {
  using Weight = typename Rows::Weight;

  Rows rows;
  std::span<Weight> intercept;  // K of them; empty if there is no intercept
  std::span<Weight> scale;      // K of them; empty if all are 1

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
    finish(classes, z);
  }

  // What makes scores of the products of the rows.
  template <class Classes>
  void finish(const Classes& classes, std::span<float> z) const {
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

  // Makes w_k += a x and b_k += a for the classes. `a` is overwritten.
  template <class Row, class Classes>
  void add(Row x, const Classes& classes, std::span<float> a, Isa isa) {
    if (!intercept.empty()) {
      const auto b = at_classes(intercept, classes);
      for (std::size_t c = 0; c < classes.size(); ++c) b[c] += a[c];
    }
    if (!scale.empty()) {
      const auto g = at_classes(scale, classes);
      for (std::size_t c = 0; c < classes.size(); ++c) a[c] /= g[c];
    }
    rows.add(x, classes, a, isa);
  }

  // Makes w_k *= s_k.
  template <class Classes>
  void shrink(const Classes& classes, std::span<const float> s) {
    const auto g = at_classes(scale, classes);
    int small = 0;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      g[c] *= s[c];
      small += g[c] < smallest_scale ? 1 : 0;
    }
    if (small == 0) return;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (g[c] >= smallest_scale) continue;
      rows.multiply(classes[c], g[c]);
      g[c] = 1;
    }
  }

  // Multiplies scales below `least` into their rows.
  void fold(float least) {
    for (std::size_t k = 0; k < scale.size(); ++k) {
      if (scale[k] >= least) continue;
      rows.multiply(static_cast<Index>(k), scale[k]);
      scale[k] = 1;
    }
  }

 private:
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }
};

}  // namespace manyclass
