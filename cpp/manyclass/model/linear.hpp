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
      for (std::size_t c = 0; c < classes.size(); ++c) z[c] *= scale[at(classes[c])];
    }
    if (!intercept.empty()) {
      for (std::size_t c = 0; c < classes.size(); ++c) z[c] += intercept[at(classes[c])];
    }
  }

  // w_k += a x, b_k += a
  template <class Row>
  void add(Row x, Index k, float a) {
    if (!intercept.empty()) intercept[at(k)] += a;
    rows.add(x, k, scale.empty() ? a : a / scale[at(k)]);
  }

  // The same for several classes; `a` is scratch afterwards.
  template <class Row, class Classes>
  void add(Row x, const Classes& classes, std::span<float> a) {
    if (!intercept.empty()) {
      for (std::size_t c = 0; c < classes.size(); ++c) intercept[at(classes[c])] += a[c];
    }
    if (!scale.empty()) {
      for (std::size_t c = 0; c < classes.size(); ++c) a[c] /= scale[at(classes[c])];
    }
    rows.add(x, classes, a);
  }

  // g_k *= factor. A tiny g_k is multiplied into r_k, which is w_k / g_k, long before either leaves float's range.
  void shrink(Index k, float factor) {
    constexpr float tiny = 0x1p-40F;
    float& g = scale[at(k)];
    g *= factor;
    if (g >= tiny) return;
    rows.multiply(k, g);
    g = 1;
  }

 private:
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }
};

}  // namespace manyclass
