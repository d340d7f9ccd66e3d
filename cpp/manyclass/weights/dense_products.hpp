// Products of dense rows with rows of weights, and sums of them: alone, or several with several in registers.
//
// Every sum is made alike, whatever is beside it and by whatever instruction set: as many running sums as numbers in a
// cache line, L of them, the l-th over the features l, l + L, ..., and then halves are added to halves. So a row has
// the same scores alone and among others, bit for bit. Four rows and four classes together take eight loads for sixteen
// multiply-adds, where a row and a class alone take two for one.
//
// The functions are meant for run_with, where they are inlined and vectorised.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/vectors.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

template <class Value>  // float or double
inline constexpr std::size_t lanes_of = 64 / sizeof(Value);

// The lanes that the last features of a row take, whose number is no multiple of L: they are the last ones of a line
// that ends with the row, or the first ones of the only line.
template <class Value>
struct LastLine {
  explicit LastLine(std::size_t width)
      : rest(width % lanes_of<Value>),
        lane(width < lanes_of<Value> ? 0 : lanes_of<Value> - rest),
        start(width - rest - lane) {}

  std::size_t rest;   // features; 0: none
  std::size_t lane;   // of the first of them
  std::size_t start;  // the feature that would be in lane 0
};

template <class Value>
inline Value dot(const Value* x, const Value* w, std::size_t width) {
  constexpr std::size_t lanes = lanes_of<Value>;
  Value sums[lanes] = {};
  for (std::size_t j = 0; j + lanes <= width; j += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += w[j + l] * x[j + l];
  }
  const LastLine<Value> last(width);
  for (std::size_t l = last.lane; l < last.lane + last.rest; ++l) sums[l] += w[last.start + l] * x[last.start + l];
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

// The kernel for `Rows` rows and `Classes` classes, whose running sums fill the registers, as vectors of `Bytes`.
template <class Value, std::size_t Bytes, std::size_t Rows, std::size_t Classes>
class ProductTile {
  static constexpr std::size_t line = lanes_of<Value>, lanes = Bytes / sizeof(Value), parts = line / lanes;
  static constexpr std::size_t n_sums = Rows * Classes;
  using Vector = manyclass::Vector<Value, Bytes>;

 public:
  static constexpr std::size_t rows = Rows, classes = Classes;

  // z[r * stride + c] = x_r . w_c, `width` numbers each. last_x and last_w have the last line of each, last_x with 0
  // for what is in the lines before; no last_w: there is none.
  static void write(const Value* const* x, const Value* const* w, std::size_t width, const Value (*last_x)[line],
                    const Value* const* last_w, Value* z, std::size_t stride) {
    Vector sums[n_sums][parts] = {};
    for (std::size_t j = 0; j + line <= width; j += line) {
      const Value* of_rows[Rows];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) of_rows[r] = x[r] + j;
      add(of_rows, w, j, sums);
    }
    if (last_w != nullptr) {
      const Value* of_rows[Rows];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) of_rows[r] = last_x[r];
      add(of_rows, last_w, 0, sums);
    }
    Vector all[n_sums];
#pragma GCC unroll 16
    for (std::size_t n = 0; n < n_sums; ++n) {
#pragma GCC unroll 4
      for (std::size_t half = parts / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
        for (std::size_t p = 0; p < half; ++p) sums[n][p] += sums[n][p + half];
      }
      all[n] = sums[n][0];
    }
    fold<n_sums, lanes>(all);
    Value found[std::max(n_sums, lanes)];
    std::memcpy(found, all, sizeof found);
    for (std::size_t r = 0; r < Rows; ++r) std::memcpy(z + r * stride, found + r * Classes, Classes * sizeof(Value));
  }

 private:
  // The loops are unrolled so that sums stay in registers.
  static void add(const Value* const (&x)[Rows], const Value* const* w, std::size_t j, Vector (&sums)[n_sums][parts]) {
    Vector of_rows[Rows][parts];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts; ++p) std::memcpy(&of_rows[r][p], x[r] + p * lanes, sizeof(Vector));
    }
#pragma GCC unroll 16
    for (std::size_t c = 0; c < Classes; ++c) {
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts; ++p) {
        Vector of_class;
        std::memcpy(&of_class, w[c] + j + p * lanes, sizeof(Vector));
#pragma GCC unroll 16
        for (std::size_t r = 0; r < Rows; ++r) sums[r * Classes + c][p] += of_rows[r][p] * of_class;
      }
    }
  }

  // Makes the sum over the lanes of each of N vectors, which then follow each other in the first of them: the halves of
  // each group of lanes are added, of two vectors at a time.
  template <std::size_t N, std::size_t Group>
  static void fold(Vector* v) {
    if constexpr (Group > 1) {
#pragma GCC unroll 16
      for (std::size_t n = 0; n < N; n += 2) {
        halve<Group>(v[n], v[N > 1 ? n + 1 : 0], v[n / 2], std::make_index_sequence<lanes>{});
      }
      fold<(N + 1) / 2, Group / 2>(v);
    }
  }

  template <std::size_t Group, std::size_t... I>
  static void halve(const Vector& a, const Vector& b, Vector& to, std::index_sequence<I...>) {
    constexpr std::size_t half = Group / 2;
    const Vector low = __builtin_shufflevector(a, b, static_cast<int>(I / half * Group + I % half)...);
    const Vector high = __builtin_shufflevector(a, b, static_cast<int>(I / half * Group + I % half + half)...);
    to = low + high;
  }
};

// Writes z_c = x . row_of(c) for n rows of whole cache lines, bit for bit as dot() makes it.
template <std::size_t Bytes, class RowOf>
inline void score_rows_of_lines(const float* x, const RowOf& row_of, std::size_t n, std::size_t width, float* z) {
  // Six rows are those of a pair of skip-gram with five negatives. Their sums fit the registers, but for SSE2.
  constexpr std::size_t some = 6 * line_bytes / Bytes + 2 < n_registers<Bytes> ? 6 : 2;
  const auto tile = [&]<std::size_t Rows>(std::size_t c) {
    const float* w[Rows];
    for (std::size_t r = 0; r < Rows; ++r) w[r] = row_of(c + r);
    ProductTile<float, Bytes, 1, Rows>::write(&x, w, width, nullptr, nullptr, z + c, Rows);
  };
  std::size_t c = 0;
  for (; c + some <= n; c += some) tile.template operator()<some>(c);
  for (; some > 2 && c + 2 <= n; c += 2) tile.template operator()<2>(c);
  if (c < n) tile.template operator()<1>(c);
}

// Most rows that are scored together: while four rows of weights are in the nearest cache, all of them are.
inline constexpr std::size_t rows_together = 16;

// Some rows of features, and their last lines.
template <class Value>
class RowsTogether {
 public:
  RowsTogether(std::span<const Value* const> x, std::size_t width) : x_(x), last_(width), width_(width) {
    if (last_.rest == 0) return;
    for (std::size_t r = 0; r < x.size(); ++r) {
      std::fill_n(lines_[r], lanes_of<Value>, Value{0});
      std::memcpy(lines_[r] + last_.lane, x[r] + last_.start + last_.lane, last_.rest * sizeof(Value));
    }
  }

  // z[r * stride + c] = x_r . row_of(c), for n classes.
  template <class RowOf>
  void scores(const RowOf& row_of, std::size_t n, Isa isa, Value* z, std::size_t stride) const {
    with_vectors(isa, [&]<std::size_t Bytes>() {
      // As many sums as leave registers for what is added: 16 vectors of 32 registers, 8 of 16.
      constexpr std::size_t sums = n_registers<Bytes> / 2 / (line_bytes / Bytes);
      constexpr std::size_t rows = sums == 16 ? 4 : sums == 2 ? 1 : 2;
      by<ProductTile<Value, Bytes, rows, sums / rows>, ProductTile<Value, Bytes, 1, sums == 2 ? 2 : 4>>(row_of, n, z,
                                                                                                        stride);
    });
  }

 private:
  // Rows that are fewer than a tile has are scored one by one, each with several classes. Their sums do not wait for
  // each other, and several rows of weights are on their way from memory at once.
  template <class Tile, class Single, class RowOf>
  void by(const RowOf& row_of, std::size_t n, Value* z, std::size_t stride) const {
    if (x_.size() >= Tile::rows) {
      tiles<Tile>(row_of, n, z, stride);
    } else {
      tiles<Single>(row_of, n, z, stride);
    }
  }

  template <class Tile, class RowOf>
  void tiles(const RowOf& row_of, std::size_t n, Value* z, std::size_t stride) const {
    std::size_t c = 0;
    for (; c + Tile::classes <= n; c += Tile::classes) {
      const Value* w[Tile::classes];
      const Value* last_w[Tile::classes];
      Value only[Tile::classes][lanes_of<Value>];
      for (std::size_t l = 0; l < Tile::classes; ++l) {
        w[l] = row_of(c + l);
        // A line of its own row, and of no other: one that is not finite is seen in its own scores only.
        last_w[l] = w[l] + last_.start;
        if (width_ >= lanes_of<Value>) continue;
        std::fill_n(only[l], lanes_of<Value>, Value{0});
        std::memcpy(only[l], w[l], width_ * sizeof(Value));
        last_w[l] = only[l];
      }
      // The last tile may make some rows again, which is quicker than one row alone.
      for (std::size_t r = 0; r < x_.size(); r += Tile::rows) {
        const std::size_t at = std::min(r, x_.size() - Tile::rows);
        Tile::write(&x_[at], w, width_, lines_ + at, last_.rest == 0 ? nullptr : last_w, z + at * stride + c, stride);
      }
    }
    for (; c < n; ++c) {
      for (std::size_t r = 0; r < x_.size(); ++r) z[r * stride + c] = dot(x_[r], row_of(c), width_);
    }
  }

  std::span<const Value* const> x_;
  LastLine<Value> last_;
  Value lines_[rows_together][lanes_of<Value>];
  std::size_t width_;
};

// Makes w_r += sum_p factor(p, r) x_p in the order of p, for `Rows` rows and `Vectors` vectors of features from the
// j-th on, which stay in registers while all points pass. Vectors are copied one by one: what is copied as an array
// stays in memory, and every addition is stored.
template <class Value, std::size_t Bytes, std::size_t Rows, std::size_t Vectors, class Factor>
inline void add_tile(std::span<const Value* const> x, const Factor& factor, std::size_t j, Value* const* w) {
  constexpr std::size_t lanes = Bytes / sizeof(Value);
  Vector<Value, Bytes> sums[Rows][Vectors];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < Vectors; ++v) std::memcpy(&sums[r][v], w[r] + j + v * lanes, Bytes);
  }
  for (std::size_t p = 0; p < x.size(); ++p) {
    Vector<Value, Bytes> of_point[Vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < Vectors; ++v) std::memcpy(&of_point[v], x[p] + j + v * lanes, Bytes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r) {
      const Value by = factor(p, r);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] += by * of_point[v];
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < Vectors; ++v) std::memcpy(w[r] + j + v * lanes, &sums[r][v], Bytes);
  }
}

// Makes row_of(c) += sum_i a[i * stride + c] x_i for n classes, `width` numbers each: every number is added to in the
// order of the points, so that bits depend on no cut. Rows whose factors are all 0 are left as they are.
template <class Value, std::size_t Bytes, class RowOf>
inline void add_products_by(std::span<const Value* const> x, std::size_t width, const Value* a, std::size_t stride,
                            const RowOf& row_of, std::size_t n) {
  // As many sums as there are registers for, beside a line of the point: 32 of 64 bytes, 16 of fewer.
  constexpr std::size_t group = 4, vectors = Bytes == 64 ? 4 : 2;
  constexpr std::size_t lanes = Bytes / sizeof(Value), tile = vectors * lanes;
  // Features that are taken up at once: those of all points stay in the nearest cache (16 kB) while the rows pass.
  constexpr std::size_t cached = (1 << 14) / sizeof(Value);
  const std::size_t block = std::max(cached / std::max(x.size(), std::size_t{1}) / tile, std::size_t{1}) * tile;
  const auto add = [&]<std::size_t Rows>(std::size_t c, std::size_t first, std::size_t last) {
    const auto all_zero = [&](std::size_t i) {
      return std::all_of(a + i * stride + c, a + i * stride + c + Rows, [](Value factor) { return factor == 0; });
    };
    std::size_t still = 0;  // most rows move, and are known by their first point
    while (still < x.size() && all_zero(still)) ++still;
    if (still == x.size()) return;
    Value* w[Rows];
    for (std::size_t r = 0; r < Rows; ++r) w[r] = row_of(c + r);
    const auto factor = [&](std::size_t i, std::size_t r) { return a[i * stride + c + r]; };
    std::size_t j = first;
    for (; j + tile <= last; j += tile) add_tile<Value, Bytes, Rows, vectors>(x, factor, j, w);
    for (; j + lanes <= last; j += lanes) add_tile<Value, Bytes, Rows, 1>(x, factor, j, w);
    // What is left is less than a vector, and made by narrower ones before it is made number by number.
    if (Bytes > 32 && j + 32 / sizeof(Value) <= last) {
      add_tile<Value, 32, Rows, 1>(x, factor, j, w);
      j += 32 / sizeof(Value);
    }
    if (Bytes > 16 && j + 16 / sizeof(Value) <= last) {
      add_tile<Value, 16, Rows, 1>(x, factor, j, w);
      j += 16 / sizeof(Value);
    }
    for (; j < last; ++j) {
      for (std::size_t r = 0; r < Rows; ++r) {
        Value sum = w[r][j];
        for (std::size_t i = 0; i < x.size(); ++i) sum += a[i * stride + c + r] * x[i][j];
        w[r][j] = sum;
      }
    }
  };
  for (std::size_t first = 0; first < width; first += block) {
    const std::size_t last = std::min(width, first + block);
    std::size_t c = 0;
    for (; c + group <= n; c += group) add.template operator()<group>(c, first, last);
    for (; c < n; ++c) add.template operator()<1>(c, first, last);
  }
}

template <class Value, class RowOf>
inline void add_products(std::span<const Value* const> x, std::size_t width, const Value* a, std::size_t stride,
                         const RowOf& row_of, std::size_t n, Isa isa) {
  with_vectors(isa, [&]<std::size_t Bytes>() { add_products_by<Value, Bytes>(x, width, a, stride, row_of, n); });
}

}  // namespace manyclass
