// Products of dense rows with rows of weights: alone, or several with several in registers.
//
// Every sum is made alike, whatever is beside it and by whatever instruction set: sixteen running sums, the l-th over
// the features l, l + 16, ..., and then halves are added to halves. So a row has the same scores alone and among
// others, bit for bit. Four rows and four classes together take eight loads for sixteen multiply-adds, where a row and a
// class alone take two for one.
//
// The functions are meant for run_with, where they are inlined and vectorised.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "manyclass/core/simd.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

// The part of sixteen lanes that the last features of a row take, whose number is no multiple of 16: they are the last
// ones of a line that ends with the row, or the first ones of the only line.
struct LastLine {
  explicit LastLine(std::size_t width)
      : rest(width % line_floats), lane(width < line_floats ? 0 : line_floats - rest), start(width - rest - lane) {}

  std::size_t rest;   // features; 0: none
  std::size_t lane;   // of the first of them
  std::size_t start;  // the feature that would be in lane 0
};

inline float dot(const float* x, const float* w, std::size_t width) {
  float sums[line_floats] = {};
  for (std::size_t j = 0; j + line_floats <= width; j += line_floats) {
    for (std::size_t l = 0; l < line_floats; ++l) sums[l] += w[j + l] * x[j + l];
  }
  const LastLine last(width);
  for (std::size_t l = last.lane; l < last.lane + last.rest; ++l) sums[l] += w[last.start + l] * x[last.start + l];
  for (std::size_t half = line_floats / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

// Vectors of the compiler, for the reason given in embedding_rows.hpp.
template <std::size_t Lanes>
struct VectorOf;
template <>
struct VectorOf<4> {
  using Type = float __attribute__((vector_size(16)));
};
template <>
struct VectorOf<8> {
  using Type = float __attribute__((vector_size(32)));
};
template <>
struct VectorOf<16> {
  using Type = float __attribute__((vector_size(64)));
};

// The kernel for `Rows` rows and `Classes` classes, whose running sums fill the registers, as vectors of `Lanes`.
template <std::size_t Lanes, std::size_t Rows, std::size_t Classes>
class ProductTile {
 public:
  static constexpr std::size_t rows = Rows, classes = Classes;

  // z[r * stride + c] = x_r . w_c, `width` numbers each. last_x and last_w have the last line of each, with 0 for what
  // is no feature of it in last_x.
  static void write(const float* const* x, const float* const* w, std::size_t width, const float (*last_x)[line_floats],
                    const float* const* last_w, float* z, std::size_t stride) {
    Vector sums[Rows * Classes][parts] = {};
    for (std::size_t j = 0; j + line_floats <= width; j += line_floats) {
      const float* of_rows[Rows];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) of_rows[r] = x[r] + j;
      add(of_rows, w, j, sums);
    }
    if (last_w != nullptr) {
      const float* of_rows[Rows];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) of_rows[r] = last_x[r];
      add(of_rows, last_w, 0, sums);
    }
    Vector all[Rows * Classes];
#pragma GCC unroll 16
    for (std::size_t n = 0; n < Rows * Classes; ++n) {
#pragma GCC unroll 4
      for (std::size_t half = parts / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
        for (std::size_t p = 0; p < half; ++p) sums[n][p] += sums[n][p + half];
      }
      all[n] = sums[n][0];
    }
    fold<Rows * Classes, Lanes>(all);
    float found[Lanes];
    std::memcpy(found, all, sizeof found);
    for (std::size_t r = 0; r < Rows; ++r) std::memcpy(z + r * stride, found + r * Classes, Classes * sizeof(float));
  }

 private:
  using Vector = typename VectorOf<Lanes>::Type;
  static constexpr std::size_t parts = line_floats / Lanes;
  static_assert(Rows * Classes <= Lanes);

  // The loops are unrolled so that sums stay in registers.
  static void add(const float* const (&x)[Rows], const float* const* w, std::size_t j,
                  Vector (&sums)[Rows * Classes][parts]) {
    Vector of_rows[Rows][parts];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts; ++p) std::memcpy(&of_rows[r][p], x[r] + p * Lanes, sizeof(Vector));
    }
#pragma GCC unroll 16
    for (std::size_t c = 0; c < Classes; ++c) {
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts; ++p) {
        Vector of_class;
        std::memcpy(&of_class, w[c] + j + p * Lanes, sizeof(Vector));
#pragma GCC unroll 16
        for (std::size_t r = 0; r < Rows; ++r) sums[r * Classes + c][p] += of_rows[r][p] * of_class;
      }
    }
  }

  // Sums over the lanes of n vectors, which the first Group lanes of the first vectors end up holding: the halves of
  // each group of lanes are added, of two vectors at a time.
  template <std::size_t N, std::size_t Group>
  static void fold(Vector* v) {
    if constexpr (Group > 1) {
#pragma GCC unroll 16
      for (std::size_t n = 0; n < N; n += 2) halve<Group>(v[n], v[N > 1 ? n + 1 : 0], v[n / 2], lanes);
      fold<(N + 1) / 2, Group / 2>(v);
    }
  }

  static constexpr std::make_index_sequence<Lanes> lanes{};

  template <std::size_t Group, std::size_t... I>
  static void halve(const Vector& a, const Vector& b, Vector& to, std::index_sequence<I...>) {
    constexpr std::size_t half = Group / 2;
    const Vector low = __builtin_shufflevector(a, b, static_cast<int>(I / half * Group + I % half)...);
    const Vector high = __builtin_shufflevector(a, b, static_cast<int>(I / half * Group + I % half + half)...);
    to = low + high;
  }
};

// Most rows that are scored together: while four rows of weights are in the nearest cache, all of them are.
inline constexpr std::size_t rows_together = 16;

// Some rows of features, and their last lines.
class RowsTogether {
 public:
  RowsTogether(std::span<const float* const> x, std::size_t width) : x_(x), last_(width), width_(width) {
    if (last_.rest == 0) return;
    for (std::size_t r = 0; r < x.size(); ++r) {
      std::fill_n(lines_[r], line_floats, 0.0F);
      std::memcpy(lines_[r] + last_.lane, x[r] + last_.start + last_.lane, last_.rest * sizeof(float));
    }
  }

  // z[r * n + c] = x_r . row_of(c), for n classes.
  template <class RowOf>
  void scores(const RowOf& row_of, std::size_t n, Isa isa, std::span<float> z) const {
    switch (isa) {  // as many sums as there are registers for: 32 of 16 lanes, 16 of 8, 16 of 4
      case Isa::avx512:
        return by<ProductTile<16, 4, 4>>(row_of, n, z.data());
      case Isa::avx2:
        return by<ProductTile<8, 2, 2>>(row_of, n, z.data());
      case Isa::baseline:
        return by<ProductTile<4, 1, 2>>(row_of, n, z.data());
    }
  }

 private:
  template <class Tile, class RowOf>
  void by(const RowOf& row_of, std::size_t n, float* z) const {
    std::size_t c = 0;
    for (; x_.size() >= Tile::rows && c + Tile::classes <= n; c += Tile::classes) {
      const float* w[Tile::classes];
      const float* last_w[Tile::classes];
      float only[Tile::classes][line_floats];
      for (std::size_t l = 0; l < Tile::classes; ++l) {
        w[l] = row_of(c + l);
        // A line of its own row, and of no other: one that is not finite is seen in its own scores only.
        last_w[l] = w[l] + last_.start;
        if (width_ >= line_floats) continue;
        std::fill_n(only[l], line_floats, 0.0F);
        std::memcpy(only[l], w[l], width_ * sizeof(float));
        last_w[l] = only[l];
      }
      // The last tile may make some rows again, which is quicker than one row alone.
      for (std::size_t r = 0; r < x_.size(); r += Tile::rows) {
        const std::size_t at = std::min(r, x_.size() - Tile::rows);
        Tile::write(&x_[at], w, width_, lines_ + at, last_.rest == 0 ? nullptr : last_w, z + at * n + c, n);
      }
    }
    for (; c < n; ++c) {
      for (std::size_t r = 0; r < x_.size(); ++r) z[r * n + c] = dot(x_[r], row_of(c), width_);
    }
  }

  std::span<const float* const> x_;
  LastLine last_;
  float lines_[rows_together][line_floats];
  std::size_t width_;
};

}  // namespace manyclass
