// Weights on a support: each feature has a weight for some classes only, its pairs (CSR over features).
//
// A row's scores are one pass over the pairs of its features into a vector of all classes. What it costs is the
// length of the pairs, not the number of classes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/lists.hpp"
#include "manyclass/core/vectors.hpp"
#include "manyclass/weights/class_range.hpp"
#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

// The classes of each feature, sorted and distinct: a list for each of D features.
using Support = Excluded;

// Positions [first, second) in the arrays of a support.
using PairRange = std::pair<std::size_t, std::size_t>;

// Those of feature j with classes in a range of the K there are.
inline PairRange pairs_of(const Support& support, Index j, ClassRange range, Index n_classes) {
  const auto at = static_cast<std::size_t>(j);
  const auto first = static_cast<std::size_t>(support.indptr[at]);
  const auto last = static_cast<std::size_t>(support.indptr[at + 1]);
  if (range.begin == 0 && range.end() == n_classes) return {first, last};
  const auto begin = support.ids.begin();
  const auto from = std::lower_bound(begin + static_cast<std::ptrdiff_t>(first),
                                     begin + static_cast<std::ptrdiff_t>(last), range.begin);
  const auto to = std::lower_bound(from, begin + static_cast<std::ptrdiff_t>(last), range.end());
  return {static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - begin)};
}

// Features and step sizes count as this at most in Adagrad's steps, whose length is the step size in either case: the
// products in between stay finite then.
inline constexpr float most_adagrad = 0x1p45F;
// What sums of squares are kept at, at most, so that files hold numbers; the step that goes beyond is 0.
inline constexpr float most_squares = std::numeric_limits<float>::max();

// Adagrad's steps of n weights, whole vectors of them: a compiler that has to think of the overlap of arrays makes the
// steps one by one.
template <std::size_t Bytes>
inline void adagrad(float* weights, float* squares, const float* slopes, std::size_t n, float rate, float offset) {
  constexpr std::size_t lanes = Bytes / sizeof(float);
#pragma GCC unroll 4
  for (std::size_t l = 0; l < n; l += lanes) {
    Vector<float, Bytes> w, sum, slope;
    std::memcpy(&w, weights + l, Bytes);
    std::memcpy(&sum, squares + l, Bytes);
    std::memcpy(&slope, slopes + l, Bytes);
    sum += slope * slope;
    Vector<float, Bytes> root = sum + offset;
    sum = sum < most_squares ? sum : Vector<float, Bytes>{} + most_squares;
    to_roots<Bytes>(root);
    w -= rate * slope / root;
    std::memcpy(weights + l, &w, Bytes);
    std::memcpy(squares + l, &sum, Bytes);
  }
}

inline void adagrad_alone(float& weight, float& squares, float slope, float rate, float offset) {
  const float sum = squares + slope * slope;
  weight -= rate * slope / std::sqrt(sum + offset);
  squares = std::fmin(sum, most_squares);
}

// Divides n weights by 1 + s, s being the step size that each has at `rate`: the proximal step of w^2 / 2 of size rate.
inline void shrink_by_adagrad(float* weights, const float* squares, std::size_t n, float rate, float offset) {
  for (std::size_t p = 0; p < n; ++p) weights[p] *= 1 / (1 + rate / std::sqrt(squares[p] + offset));
}

// The sum of a class that no feature of a row has added to: not a number, and none that arithmetic makes.
inline constexpr float no_sum = std::bit_cast<float>(0x7fedcba9U);

template <class Float>  // float, or const float for weights that are only read
class PairRows {
 public:
  using Weight = Float;
  using Data = CsrView;

  PairRows(const Support& support, std::span<Float> values, Index n_classes)
      : support_(support), values_(values), n_classes_(n_classes) {}

  // z_k = sum_j x_j s_jk of a range of classes.
  void scores(SparseRow x, ClassRange classes, std::span<float> z) const {
    std::fill_n(z.data(), classes.size(), 0.0F);
    add_scores(x, classes, z);
  }

  void add_scores(SparseRow x, ClassRange classes, std::span<float> z) const {
    const Index* const ids = support_.ids.data();
    const Float* const s = values_.data();
    float* const to = z.data() - classes.begin;
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const auto [first, last] = pairs_of(support_, x.indices[n], classes, n_classes_);
      const float value = x.values[n];
      // One number at a time: to gather and scatter is slower, by AVX-512, too.
#pragma GCC unroll 4
      for (std::size_t p = first; p < last; ++p) to[ids[p]] += value * s[p];
    }
  }

  // Adds x_j s_jk to the sums of the classes that the row's features have weights of. Those whose sum was `no_sum` are
  // listed at met[n] and on, with room for one more; returns how many the list has then.
  std::size_t add_met(SparseRow x, std::span<float> sums, Index* met, std::size_t n) const {
    const Index* const ids = support_.ids.data();
    const Float* const s = values_.data();
    for (std::size_t j = 0; j < x.indices.size(); ++j) {
      const auto [first, last] = pairs_of(support_, x.indices[j], {0, n_classes_}, n_classes_);
      const float value = x.values[j];
      for (std::size_t p = first; p < last; ++p) {
        float& sum = sums[static_cast<std::size_t>(ids[p])];
        // By arithmetic on bits: no processor foresees which classes are new, and a branch that it guesses wrongly
        // takes longer than the rest.
        const auto bits = std::bit_cast<std::uint32_t>(sum);
        const std::uint32_t is_new = bits == std::bit_cast<std::uint32_t>(no_sum) ? 1 : 0;
        met[n] = ids[p];
        n += is_new;
        sum = std::bit_cast<float>(bits & (is_new - 1)) + value * s[p];
      }
    }
    return n;
  }

  // s_jk -= rate g / sqrt(G + offset) with g = x_j g_k and G the sum of g^2 so far, this one included (Adagrad, with a
  // sum for each weight), of a range of classes. Most g_k are 0: their lines are read, not written.
  void descend(SparseRow x, ClassRange classes, std::span<const float> g, std::span<float> squares, float rate,
               float offset, Isa isa) const
    requires(!std::is_const_v<Float>)
  {
    rate = std::fmin(rate, most_adagrad);
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const auto [first, last] = pairs_of(support_, x.indices[n], classes, n_classes_);
      const float value = std::clamp(x.values[n], -most_adagrad, most_adagrad);
      std::size_t p = first;
      for (; p + line_floats <= last; p += line_floats) {
        with_vectors(isa,
                     [&]<std::size_t Bytes>() { descend<Bytes, line_floats>(p, g, value, squares, rate, offset); });
      }
      // What is left of a line by fours, which all instruction sets have.
      constexpr std::size_t four = 4;
      for (; p + four <= last; p += four) descend<four * sizeof(float), four>(p, g, value, squares, rate, offset);
      for (; p < last; ++p) {
        const float slope = value * g[static_cast<std::size_t>(support_.ids[p])];
        if (slope == 0) continue;
        adagrad_alone(values_[p], squares[p], slope, rate, offset);
      }
    }
  }

 private:
  // The steps of the N weights from p on, which are left alone where all gradients are 0.
  template <std::size_t Bytes, std::size_t N>
  void descend(std::size_t p, std::span<const float> g, float value, std::span<float> squares, float rate,
               float offset) const {
    const Index* const ids = support_.ids.data() + p;
    alignas(line_bytes) float some[N];
    std::uint32_t any = 0;
    for (std::size_t l = 0; l < N; ++l) {
      some[l] = g[static_cast<std::size_t>(ids[l])];
      any |= std::bit_cast<std::uint32_t>(some[l]) << 1;  // without the sign of a zero
    }
    if (any == 0) return;
    for (float& slope : some) slope *= value;
    adagrad<Bytes>(values_.data() + p, squares.data() + p, some, N, rate, offset);
  }

  Support support_;
  std::span<Float> values_;
  Index n_classes_;
};

// Rows of sparse features x beside the rows of dense ones, phi, that something else made of them.
struct PairedView {
  struct Row {
    SparseRow x;
    DenseRow phi;
  };

  CsrView x;
  DenseView phi;
  Index n_cols = 0;  // of x

  Index n_rows() const { return x.n_rows(); }
  Row row(Index i) const { return {x.row(i), phi.row(i)}; }
};

// The dense parts of at most rows_together rows.
class PhiOf {
 public:
  explicit PhiOf(std::span<const PairedView::Row> rows) : n_(rows.size()) {
    for (std::size_t i = 0; i < n_; ++i) rows_[i] = rows[i].phi;
  }
  std::span<const DenseRow> rows() const { return std::span(rows_).first(n_); }

 private:
  std::array<DenseRow, rows_together> rows_;
  std::size_t n_;
};

// z_k = sum_j x_j s_jk + w_k.phi.
struct PairedRows {
  using Weight = const float;
  using Data = PairedView;
  static constexpr std::size_t together = rows_together;

  PairRows<const float> pairs;
  ClassRows<const float> classes;

  void scores(const PairedView::Row& row, ClassRange range, std::span<float> z) const {
    classes.scores(row.phi, range, z);
    pairs.add_scores(row.x, range, z);
  }

  // Scores of at most `together` rows, as ClassRows has it.
  void scores(std::span<const PairedView::Row> rows, ClassRange range, Isa isa, std::span<float> z) const {
    const std::size_t n = range.size();
    classes.scores(PhiOf(rows).rows(), range, isa, z);
    for (std::size_t i = 0; i < rows.size(); ++i) pairs.add_scores(rows[i].x, range, z.subspan(i * n, n));
  }
};

}  // namespace manyclass
