// Scores and sums of outer products in double precision, over weights stored as float or double.
//
// The zero line needs them: L-BFGS compares losses that differ by 1e-12, and a bound must not lose to the rounding of
// its own terms.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/core/vectors.hpp"
#include "manyclass/weights/class_range.hpp"
#include "manyclass/weights/dense_products.hpp"

namespace manyclass {

// Feature-major weights for sparse points: row j holds the weight of feature j for every class.
template <class Weight>
struct FeatureMajor {
  using Data = CsrView;
  static constexpr Index narrow = 16;  // fewest classes that are worth a pass over the points: a cache line of floats

  static constexpr std::size_t together = 64;  // points that are added at once: by 16 L-BFGS takes 1.05 times as long

  std::span<const Weight> weights;
  std::size_t stride;  // weights in a row

  // Some points.
  struct Points {
    Points(const CsrView& matrix, std::size_t first, std::size_t n) : x(matrix), begin(first), size(n) {}
    SparseRow operator[](std::size_t i) const { return x.row(static_cast<Index>(begin + i)); }
    const CsrView& x;
    std::size_t begin, size;
  };

  // Scores of the points, which follow each other in z by `width`.
  void scores(const Points& points, ClassRange classes, Isa isa, double* z, std::size_t width) const {
    const auto begin = static_cast<std::size_t>(classes.begin);
    with_vectors(isa, [&]<std::size_t Bytes>() {
      constexpr std::size_t wide = 8 * Bytes / sizeof(double);  // eight running sums stay in registers
      for (std::size_t i = 0; i < points.size; ++i) {
        const SparseRow x = points[i];
        double* of_point = z + i * width;
        std::size_t c = 0;
        for (; c + wide <= classes.size(); c += wide) score_tile<Bytes, wide>(x, begin + c, of_point + c);
        for (; c + line <= classes.size(); c += line) score_tile<Bytes, line>(x, begin + c, of_point + c);
        for (; c < classes.size(); ++c) of_point[c] = score(x, begin + c);
      }
    });
  }

  // sums[j][c] += a[i][c] x_ij over points i, sums being (n_cols x n_classes)
  static void add(const Points& points, std::span<const double> a, Isa isa, std::span<double> sums) {
    const std::size_t width = a.size() / points.size;
    for (std::size_t i = 0; i < points.size; ++i) add(points[i], a.subspan(i * width, width), isa, sums);
  }

  // out, shaped as the weights, = scale * sums in the columns of `classes`, beside what is there if `more`
  void store(ClassRange classes, std::span<const double> sums, double scale, bool more, std::span<double> out) const {
    const std::size_t width = classes.size();
    for (std::size_t j = 0; j * width < sums.size(); ++j) {
      double* to = out.data() + j * stride + static_cast<std::size_t>(classes.begin);
      for (std::size_t c = 0; c < width; ++c) to[c] = (more ? to[c] : 0) + scale * sums[j * width + c];
    }
  }

 private:
  // The classes of a narrow pass.
  static constexpr std::size_t line = static_cast<std::size_t>(narrow);

  static void add(SparseRow x, std::span<const double> a, Isa isa, std::span<double> sums) {
    if (a.size() == line) return with_vectors(isa, [&]<std::size_t Bytes>() { add_line<Bytes>(x, a.data(), sums); });
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      double* row = sums.data() + static_cast<std::size_t>(x.indices[n]) * a.size();
      const auto value = static_cast<double>(x.values[n]);
      for (std::size_t c = 0; c < a.size(); ++c) row[c] += value * a[c];
    }
  }

  template <std::size_t Bytes>
  static void add_line(SparseRow x, const double* a, std::span<double> sums) {
    constexpr std::size_t lanes = Bytes / sizeof(double), vectors = line / lanes;
    Vector<double, Bytes> factors[vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) std::memcpy(&factors[v], a + v * lanes, Bytes);
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      double* row = sums.data() + static_cast<std::size_t>(x.indices[n]) * line;
      const auto value = static_cast<double>(x.values[n]);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) {
        Vector<double, Bytes> sum;
        std::memcpy(&sum, row + v * lanes, Bytes);
        sum += value * factors[v];
        std::memcpy(row + v * lanes, &sum, Bytes);
      }
    }
  }

  // Writes the scores of `Count` classes.
  template <std::size_t Bytes, std::size_t Count>
  void score_tile(SparseRow x, std::size_t first, double* z) const {
    constexpr std::size_t lanes = Bytes / sizeof(double), vectors = Count / lanes;
    Vector<double, Bytes> sums[vectors] = {};
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const Weight* row = weights.data() + static_cast<std::size_t>(x.indices[n]) * stride + first;
      const auto value = static_cast<double>(x.values[n]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < vectors; ++v) {
        Vector<Weight, lanes * sizeof(Weight)> some;
        std::memcpy(&some, row + v * lanes, sizeof some);
        sums[v] += value * __builtin_convertvector(some, Vector<double, Bytes>);
      }
    }
    std::memcpy(z, sums, sizeof sums);
  }

  double score(SparseRow x, std::size_t k) const {
    double sum = 0;
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const Weight w = weights[static_cast<std::size_t>(x.indices[n]) * stride + k];
      sum += static_cast<double>(x.values[n]) * static_cast<double>(w);
    }
    return sum;
  }
};

// Class-major weights for dense points: row k is w_k.
template <class Weight>
struct ClassMajor {
  using Data = DenseView;
  static constexpr Index narrow = 4;  // so that a point, once read, serves several classes

  // Enough points that a number of the sums is read and written seldom, few enough that 64 classes' factors of them
  // stay in the nearest cache (32 kB).
  static constexpr std::size_t together = 4 * rows_together;

  std::span<const Weight> weights;
  std::size_t stride;  // features

  // Some points, as doubles.
  struct Points {
    Points(const DenseView& x, std::size_t first, std::size_t n)
        : begin(first), size(n), width(static_cast<std::size_t>(x.n_cols)) {
      const float* from = x.data.data() + first * width;
      values.assign(from, from + n * width);
    }
    const double* operator[](std::size_t i) const { return values.data() + i * width; }
    std::size_t begin, size, width;
    std::vector<double> values;
  };

  // Scores of the points, which follow each other in z by `width`.
  void scores(const Points& points, ClassRange classes, Isa isa, double* z, std::size_t width) const {
    if constexpr (std::is_same_v<Weight, double>) {
      const auto row_of = [&](std::size_t c) { return row(classes[c]); };
      for (std::size_t i = 0; i < points.size; i += rows_together) {
        const double* x[rows_together];
        const std::size_t n = std::min(rows_together, points.size - i);
        for (std::size_t r = 0; r < n; ++r) x[r] = points[i + r];
        const RowsTogether<double> rows(std::span<const double* const>(x, n), stride);
        rows.scores(row_of, classes.size(), isa, z + i * width, width);
      }
    } else {
      std::vector<double> of_class(stride);
      for (std::size_t c = 0; c < classes.size(); ++c) {
        std::copy_n(row(classes[c]), stride, of_class.begin());
        for (std::size_t i = 0; i < points.size; ++i)
          z[i * width + c] = dot<double>(points[i], of_class.data(), stride);
      }
    }
  }

  // sums[c][j] += a[i][c] x_ij over at most `together` points i, sums being (n_classes x n_cols)
  static void add(const Points& points, std::span<const double> a, Isa isa, std::span<double> sums) {
    const std::size_t n_classes = a.size() / points.size;
    const double* x[together];
    for (std::size_t i = 0; i < points.size; ++i) x[i] = points[i];
    const auto row_of = [&](std::size_t c) { return sums.data() + c * points.width; };
    add_products<double>(std::span<const double* const>(x, points.size), points.width, a.data(), n_classes, row_of,
                         n_classes, isa);
  }

  void store(ClassRange classes, std::span<const double> sums, double scale, bool more, std::span<double> out) const {
    double* to = out.data() + static_cast<std::size_t>(classes.begin) * stride;
    for (std::size_t at = 0; at < sums.size(); ++at) to[at] = (more ? to[at] : 0) + scale * sums[at];
  }

 private:
  const Weight* row(Index k) const { return weights.data() + static_cast<std::size_t>(k) * stride; }
};

// z_k = w_k.x + b_k
template <class Layout>
struct DoubleModel {
  Layout layout;
  std::span<const double> intercept;  // K, or empty: none
  Index n_classes;

  // Scores of the points, which follow each other in z by `width`.
  void scores(const typename Layout::Points& points, ClassRange classes, Isa isa, double* z, std::size_t width) const {
    layout.scores(points, classes, isa, z, width);
    if (intercept.empty()) return;
    const double* b = intercept.data() + classes.begin;
    for (std::size_t i = 0; i < points.size; ++i) {
      for (std::size_t c = 0; c < classes.size(); ++c) z[i * width + c] += b[c];
    }
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
