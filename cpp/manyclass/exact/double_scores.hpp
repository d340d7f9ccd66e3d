// Scores and sums of outer products in double precision, over weights stored as float or double.
//
// The zero line needs them: L-BFGS compares losses that differ by 1e-12, and a bound must not lose to the rounding of
// its own terms.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <string>

#include "manyclass/core/csr.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

// Feature-major weights for sparse points: row j holds the weight of feature j for every class.
template <class Weight>
struct FeatureMajor {
  using Data = CsrView;
  static constexpr Index narrow = 16;  // fewest classes that are worth a pass over the points: a cache line of floats

  std::span<const Weight> weights;
  std::size_t stride;  // weights in a row

  void scores(SparseRow x, ClassRange classes, std::span<double> z) const {
    std::size_t c = 0;
    for (; c + tile <= classes.size(); c += tile) score_tile(x, classes.begin, c, tile, z);
    if (c < classes.size()) score_tile(x, classes.begin, c, classes.size() - c, z);
  }

  // sums[j][c] += a[c] x_j, sums being (n_cols x a.size())
  static void add(SparseRow x, std::span<const double> a, std::span<double> sums) {
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      double* row = sums.data() + static_cast<std::size_t>(x.indices[n]) * a.size();
      const auto value = static_cast<double>(x.values[n]);
      for (std::size_t c = 0; c < a.size(); ++c) row[c] += value * a[c];
    }
  }

  // out, shaped as the weights, = scale * sums in the columns of `classes`
  void store(ClassRange classes, std::span<const double> sums, double scale, std::span<double> out) const {
    const std::size_t width = classes.size();
    for (std::size_t j = 0; j * width < sums.size(); ++j) {
      for (std::size_t c = 0; c < width; ++c) {
        out[j * stride + static_cast<std::size_t>(classes[c])] = scale * sums[j * width + c];
      }
    }
  }

 private:
  static constexpr std::size_t tile = 32;  // running sums that fit the registers of the widest instruction set

  void score_tile(SparseRow x, Index begin, std::size_t c, std::size_t count, std::span<double> z) const {
    std::array<double, tile> sums{};
    const std::size_t first = static_cast<std::size_t>(begin) + c;
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const Weight* row = weights.data() + static_cast<std::size_t>(x.indices[n]) * stride + first;
      const auto value = static_cast<double>(x.values[n]);
      if (count == tile) {
        for (std::size_t l = 0; l < tile; ++l) sums[l] += value * static_cast<double>(row[l]);
      } else {
        for (std::size_t l = 0; l < count; ++l) sums[l] += value * static_cast<double>(row[l]);
      }
    }
    std::copy_n(sums.data(), count, z.data() + c);
  }
};

// Class-major weights for dense points: row k is w_k.
template <class Weight>
struct ClassMajor {
  using Data = DenseView;
  static constexpr Index narrow = 4;  // so that a point, once read, serves several classes

  std::span<const Weight> weights;
  std::size_t stride;  // features

  void scores(DenseRow x, ClassRange classes, std::span<double> z) const {
    // Sixteen running sums let the compiler vectorise without reordering a sum behind our back.
    constexpr std::size_t lanes = 16;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const Weight* w = weights.data() + static_cast<std::size_t>(classes[c]) * stride;
      std::array<double, lanes> sums{};
      std::size_t j = 0;
      for (; j + lanes <= stride; j += lanes) {
        for (std::size_t l = 0; l < lanes; ++l) {
          sums[l] += static_cast<double>(w[j + l]) * static_cast<double>(x[j + l]);
        }
      }
      double total = 0;
      for (; j < stride; ++j) total += static_cast<double>(w[j]) * static_cast<double>(x[j]);
      for (const double sum : sums) total += sum;
      z[c] = total;
    }
  }

  // sums[c][j] += a[c] x_j, sums being (a.size() x n_cols)
  static void add(DenseRow x, std::span<const double> a, std::span<double> sums) {
    for (std::size_t c = 0; c < a.size(); ++c) {
      double* row = sums.data() + c * x.size();
      for (std::size_t j = 0; j < x.size(); ++j) row[j] += a[c] * static_cast<double>(x[j]);
    }
  }

  void store(ClassRange classes, std::span<const double> sums, double scale, std::span<double> out) const {
    const std::size_t first = static_cast<std::size_t>(classes.begin) * stride;
    for (std::size_t at = 0; at < sums.size(); ++at) out[first + at] = scale * sums[at];
  }
};

// z_k = w_k.x + b_k
template <class Layout>
struct DoubleModel {
  Layout layout;
  std::span<const double> intercept;  // K, or empty: none
  Index n_classes;

  template <class Row>
  void scores(Row x, ClassRange classes, std::span<double> z) const {
    layout.scores(x, classes, z);
    if (intercept.empty()) return;
    const double* b = intercept.data() + classes.begin;
    for (std::size_t c = 0; c < classes.size(); ++c) z[c] += b[c];
  }
};

// Throws std::invalid_argument where points, labels and the model's intercept do not fit each other.
template <class Data, class Layout>
void check(const Data& x, std::span<const Index> labels, const DoubleModel<Layout>& model) {
  if (model.n_classes < 1) throw std::invalid_argument("n_classes is 0; it must be at least 1");
  if (!model.intercept.empty() && model.intercept.size() != static_cast<std::size_t>(model.n_classes)) {
    throw std::invalid_argument("the intercept has " + std::to_string(model.intercept.size()) +
                                " values; it must have " + std::to_string(model.n_classes));
  }
  if (x.n_rows() == 0) throw std::invalid_argument("X has no rows");
  if (labels.size() != static_cast<std::size_t>(x.n_rows())) {
    throw std::invalid_argument("y has " + std::to_string(labels.size()) + " values; it must have " +
                                std::to_string(x.n_rows()));
  }
  for (const Index label : labels) {
    if (label < 0 || label >= model.n_classes) throw std::invalid_argument("a label is out of range");
  }
}

}  // namespace manyclass
