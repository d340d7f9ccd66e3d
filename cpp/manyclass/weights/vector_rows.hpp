// Rows of floats, padded with zeros to whole cache lines, that move by multiples of a vector.
//
// With `squares` each row has its own step size, by Adagrad (Duchi, Hazan & Singer, JMLR 2011) with one sum a row. A
// gradient g moves the row by eta g / sqrt(sum of all |g|^2 so far). So the first move has length eta, whatever the
// data's scale.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "manyclass/core/types.hpp"
#include "manyclass/core/vectors.hpp"
#include "manyclass/weights/class_range.hpp"
#include "manyclass/weights/dense_products.hpp"

namespace manyclass {

// What a gradient g of row k with |g|^2 = g_sq is multiplied by in a step of size eta, after its sum of squares has
// grown by it; without sums that is eta.
inline float length_of_step(std::span<float> squares, Index k, double g_sq, double eta) {
  constexpr float most = std::numeric_limits<float>::max();
  const auto step = static_cast<float>(std::fmin(eta, static_cast<double>(most)));
  if (squares.empty()) return step;
  float& square = squares[static_cast<std::size_t>(k)];
  square = std::fmin(square + static_cast<float>(g_sq), most);
  return square == 0 ? 0.0F : std::fmin(step / std::sqrt(square), most);
}

class VectorRows {
 public:
  VectorRows() = default;
  // `width` is the number of floats from row to row, a multiple of line_floats. `squares` has a number for each row, or
  // is empty.
  VectorRows(std::span<float> values, std::span<float> squares, std::size_t width)
      : values_(values), squares_(squares), width_(width) {}

  bool empty() const { return values_.empty(); }
  std::size_t size() const { return width_ == 0 ? 0 : values_.size() / width_; }
  std::size_t width() const { return width_; }
  std::span<const float> operator[](Index k) const {
    return values_.subspan(static_cast<std::size_t>(k) * width_, width_);
  }
  void prefetch(Index k) const {
    const float* row = at(k);
    for (std::size_t j = 0; j < width_; j += line_floats) __builtin_prefetch(row + j);
  }

  float dot(Index k, std::span<const float> v, Isa isa) const {
    float sum = 0;
    with_vectors(isa, [&]<std::size_t Bytes>() {
      score_rows_of_lines<Bytes>(v.data(), [&](std::size_t) { return at(k); }, 1, width_, &sum);
    });
    return sum;
  }

  // Writes z_c = <row ids[c], v>, each as dot() makes it.
  void scores(std::span<const Index> ids, std::span<const float> v, Isa isa, std::span<float> z) const {
    with_vectors(isa, [&]<std::size_t Bytes>() {
      constexpr std::size_t ahead = 8;  // rows on their way from memory
      for (std::size_t c = 0; c < std::min(ahead, ids.size()); ++c) prefetch(ids[c]);
      const auto row_of = [&](std::size_t c) {
        if (c + ahead < ids.size()) prefetch(ids[c + ahead]);
        return at(ids[c]);
      };
      score_rows_of_lines<Bytes>(v.data(), row_of, ids.size(), width_, z.data());
    });
  }

  // Makes v += a times row k.
  void add_to(std::span<float> v, Index k, float a) const { add(v.data(), a, at(k)); }

  // Moves row k by a step of size eta along -g, where g_sq = |g|^2.
  void descend(Index k, std::span<const float> g, double g_sq, double eta) const {
    const float step = length_of_step(squares_, k, g_sq, eta);
    add(values_.data() + static_cast<std::size_t>(k) * width_, -step, g.data());
  }

  // Divides the first n numbers of row k by 1 + s, s being what a step of size eta would multiply a gradient by: the
  // proximal step of |w|^2 / 2.
  void shrink(Index k, std::size_t n, double eta) const {
    const float factor = 1 / (1 + length_of_step(squares_, k, 0, eta));
    float* const row = values_.data() + static_cast<std::size_t>(k) * width_;
    for (std::size_t j = 0; j < n; ++j) row[j] *= factor;
  }

 private:
  const float* at(Index k) const { return values_.data() + static_cast<std::size_t>(k) * width_; }
  void add(float* __restrict to, float a, const float* __restrict from) const {
    for (std::size_t j = 0; j < width_; ++j) to[j] += a * from[j];
  }

  std::span<float> values_;
  std::span<float> squares_;
  std::size_t width_ = 0;
};

inline double squared_norm(std::span<const float> v) {
  double sums[line_floats] = {};
  std::size_t j = 0;
  for (; j + line_floats <= v.size(); j += line_floats) {
    for (std::size_t l = 0; l < line_floats; ++l) {
      sums[l] += static_cast<double>(v[j + l]) * static_cast<double>(v[j + l]);
    }
  }
  double sum = 0;
  for (; j < v.size(); ++j) sum += static_cast<double>(v[j]) * static_cast<double>(v[j]);
  for (const double s : sums) sum += s;
  return sum;
}

}  // namespace manyclass
