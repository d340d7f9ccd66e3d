// An embedding table: row k is the vector of word k, padded with zeros to whole cache lines.
//
// Threads race on the table by Hogwild. A float is read and written at once, so a row is at worst a mixture of two
// steps. tests/cpp/hogwild.supp names this class and what scores its rows, and nothing else may touch a row.
#pragma once

#include <cstring>
#include <span>

#include "manyclass/core/types.hpp"
#include "manyclass/core/vectors.hpp"
#include "manyclass/weights/dense_products.hpp"

namespace manyclass {

class EmbeddingRows {
 public:
  // `width` is the number of floats from row to row, a multiple of line_floats.
  EmbeddingRows(std::span<float> values, std::size_t width)
      : values_(values.data()), width_(width), size_(width == 0 ? 0 : values.size() / width) {}

  std::size_t width() const { return width_; }
  std::size_t size() const { return size_; }

  // Writes z_t = <h, v_t> of the rows t, where h is row `of` of `other`.
  void scores(const EmbeddingRows& other, Index of, std::span<const Index> rows, Isa isa, float* z) const {
    with_vectors(isa, [&]<std::size_t Bytes>() {
      const auto row_of = [&](std::size_t t) { return row(rows[t]); };
      score_rows_of_lines<Bytes>(other.row(of), row_of, rows.size(), width_, z);
    });
  }

  float norm_sq(Index k, Isa isa) const {
    float sum = 0;
    scores(*this, k, std::span(&k, 1), isa, &sum);
    return sum;
  }

  // Makes v_t += g_t h for every t, and h += sum_t g_t v_t with the v_t before. A row that is listed twice moves twice.
  void move(const EmbeddingRows& other, Index of, std::span<const Index> rows, Isa isa, const float* g) const {
    with_vectors(isa, [&]<std::size_t Bytes>() {
      constexpr std::size_t vectors = 4, usual = 6;  // rows of a pair of skip-gram with five negatives
      constexpr std::size_t lanes = Bytes / sizeof(float), tile = vectors * lanes;
      float* h = other.row(of);
      if (rows.size() == usual) return move_few<Bytes, usual>(h, rows, g);
      std::size_t j = 0;
      for (; j + tile <= width_; j += tile) move_at<Bytes, vectors>(h, rows, g, j);
      for (; j < width_; j += lanes) move_at<Bytes, 1>(h, rows, g, j);
    });
  }

  // Asks for all lines of a row. Rows are drawn at random, and the processor cannot know how long they are.
  void prefetch(Index k) const {
    const float* v = row(k);
    for (std::size_t j = 0; j < width_; j += line_floats) __builtin_prefetch(v + j, 1);
  }

 private:
  float* row(Index k) const { return values_ + static_cast<std::size_t>(k) * width_; }

  // Few rows: their addresses and factors stay in registers, too, which takes .7 to .9 of the time.
  template <std::size_t Bytes, std::size_t Rows>
  void move_few(float* h, std::span<const Index> rows, const float* g) const {
    float* v[Rows];
    for (std::size_t t = 0; t < Rows; ++t) v[t] = row(rows[t]);
    for (std::size_t j = 0; j < width_; j += Bytes / sizeof(float)) {
      Vector<float, Bytes> at, sum;
      std::memcpy(&at, h + j, Bytes);
      sum = at;
#pragma GCC unroll 8
      for (std::size_t t = 0; t < Rows; ++t) {
        Vector<float, Bytes> part;
        std::memcpy(&part, v[t] + j, Bytes);
        sum += g[t] * part;
        part += g[t] * at;
        std::memcpy(v[t] + j, &part, Bytes);
      }
      std::memcpy(h + j, &sum, Bytes);
    }
  }

  // Some vectors of h are taken at a time. They and their sums stay in registers while all rows pass.
  template <std::size_t Bytes, std::size_t Vectors>
  void move_at(float* h, std::span<const Index> rows, const float* g, std::size_t j) const {
    constexpr std::size_t lanes = Bytes / sizeof(float);
    Vector<float, Bytes> at[Vectors], sums[Vectors];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Vectors; ++i) {
      std::memcpy(&at[i], h + j + i * lanes, Bytes);
      sums[i] = at[i];
    }
    for (std::size_t t = 0; t < rows.size(); ++t) {
      float* v = row(rows[t]) + j;
      const float by = g[t];
#pragma GCC unroll 8
      for (std::size_t i = 0; i < Vectors; ++i) {
        Vector<float, Bytes> part;
        std::memcpy(&part, v + i * lanes, Bytes);
        sums[i] += by * part;
        part += by * at[i];
        std::memcpy(v + i * lanes, &part, Bytes);
      }
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Vectors; ++i) std::memcpy(h + j + i * lanes, &sums[i], Bytes);
  }

  float* values_;
  std::size_t width_;
  std::size_t size_;
};

}  // namespace manyclass
