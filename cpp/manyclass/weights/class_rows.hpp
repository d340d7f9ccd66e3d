// Class-major weights for dense points: row k is w_k.
#pragma once

#include <cassert>
#include <span>
#include <type_traits>

#include "manyclass/core/csr.hpp"
#include "manyclass/weights/adapt.hpp"
#include "manyclass/weights/class_range.hpp"
#include "manyclass/weights/dense_products.hpp"

namespace manyclass {

template <class Float>  // float, or const float for weights that are only read
class ClassRows {
 public:
  using Weight = Float;
  using Data = DenseView;
  static constexpr std::size_t together = rows_together;

  ClassRows(std::span<Float> weights, Index n_features)
      : weights_(weights.data()), n_features_(static_cast<std::size_t>(n_features)) {}

  Index n_features() const { return static_cast<Index>(n_features_); }

  float score(DenseRow x, Index k) const { return dot<float>(x.data(), row(k), n_features_); }

  template <class Classes>
  void scores(DenseRow x, const Classes& classes, std::span<float> z) const {
    for (std::size_t c = 0; c < classes.size(); ++c) z[c] = score(x, classes[c]);
  }

  // Scores of at most `together` rows, which follow each other in z by the number of classes: bit for bit those of each
  // alone.
  template <class Classes>
  void scores(std::span<const float* const> x, const Classes& classes, Isa isa, std::span<float> z) const {
    const auto row_of = [&](std::size_t c) { return row(classes[c]); };
    RowsTogether<float>(x, n_features_).scores(row_of, classes.size(), isa, z.data(), classes.size());
  }

  template <class Classes>
  void scores(std::span<const DenseRow> x, const Classes& classes, Isa isa, std::span<float> z) const {
    const float* rows[together];
    for (std::size_t i = 0; i < x.size(); ++i) rows[i] = x[i].data();
    scores(std::span<const float* const>(rows, x.size()), classes, isa, z);
  }

  // w_k += a x
  void add(DenseRow x, Index k, float a)
    requires(!std::is_const_v<Float>)
  {
    Float* w = row(k);
    for (std::size_t j = 0; j < n_features_; ++j) w[j] += a * x[j];
  }

  template <class Classes>
  void add(DenseRow x, const Classes& classes, std::span<const float> a, Isa)
    requires(!std::is_const_v<Float>)
  {
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (a[c] != 0) add(x, classes[c], a[c]);
    }
  }

  // w_k += sum_i a[i * stride + c] x_i for the c-th class k: each row is read and written once for several points.
  void add(std::span<const float* const> x, ClassRange classes, Isa isa, std::span<const float> a, std::size_t stride)
    requires(!std::is_const_v<Float>)
  {
    const auto row_of = [&](std::size_t c) { return row(classes[c]); };
    add_products<float>(x, n_features_, a.data(), stride, row_of, classes.size(), isa);
  }

  // w_k *= a
  void multiply(Index k, float a)
    requires(!std::is_const_v<Float>)
  {
    for (Float& w : std::span<Float>(row(k), n_features_)) w *= a;
  }

  // The adaptive step of each weight, as FeatureRows::add_adaptive has it.
  template <class Classes>
  void add_adaptive(DenseRow x, const Classes& classes, std::span<const float> a, float rate, const ClassRows& squares)
    requires(!std::is_const_v<Float>)
  {
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (a[c] == 0) continue;
      Float* w = row(classes[c]);
      Float* square = squares.row(classes[c]);
      for (std::size_t j = 0; j < n_features_; ++j) adapt(w[j], square[j], a[c] * x[j], rate);
    }
  }

  // The adaptive step of each weight of the classes along `gradients`, which is then 0 there.
  void descend_adaptive(DenseRow, ClassRange classes, float rate, const ClassRows& squares, const ClassRows& gradients)
    requires(!std::is_const_v<Float>)
  {
    for (Index k = classes.begin; k < classes.end(); ++k) {
      Float* w = row(k);
      Float* square = squares.row(k);
      Float* gradient = gradients.row(k);
      for (std::size_t j = 0; j < n_features_; ++j) {
        adapt(w[j], square[j], gradient[j], rate);
        gradient[j] = 0;
      }
    }
  }

  // Rows are streams, which the processor prefetches itself once their start is known.
  template <class Classes>
  void prefetch(DenseRow, const Classes& classes, Index label) const {
    __builtin_prefetch(row(label), 1);
    if (classes.size() > 64) return;
    for (std::size_t c = 0; c < classes.size(); ++c) __builtin_prefetch(row(classes[c]), 1);
  }

 private:
  Float* row(Index k) const { return weights_ + static_cast<std::size_t>(k) * n_features_; }

  Float* weights_;
  std::size_t n_features_;
};

}  // namespace manyclass
