// An embedding table: row k is the vector of word k, padded with zeros to whole cache lines.
//
// Threads race on the table by Hogwild. A float is read and written at once, so a row is at worst a mixture of two
// steps. tests/cpp/hogwild.supp names this class, and nothing outside of the class may touch a row.
#pragma once

#include <cstring>
#include <span>

#include "manyclass/core/types.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

class EmbeddingRows {
 public:
  // `width` is the number of floats from row to row, a multiple of line_floats.
  EmbeddingRows(std::span<float> values, std::size_t width) : values_(values.data()), width_(width) {}

  std::size_t width() const { return width_; }

  // Writes z_t = <h, v_t> of the rows t, where h is row `of` of `other`.
  void scores(const EmbeddingRows& other, Index of, std::span<const Index> rows, float* z) const {
    const float* h = other.row(of);
    for (std::size_t t = 0; t < rows.size(); ++t) z[t] = dot(h, row(rows[t]), width_);
  }

  float norm_sq(Index k) const { return dot(row(k), row(k), width_); }

  // Makes v_t += g_t h for every t, and h += sum_t g_t v_t with the v_t before. A row that is listed twice moves twice.
  void move(const EmbeddingRows& other, Index of, std::span<const Index> rows, const float* g) const {
    float* h = other.row(of);
    for (std::size_t j = 0; j < width_; j += line_floats) {
      // One line of h is taken at a time. It and its sum stay in registers while all rows pass.
      Line at, sum;
      std::memcpy(&at, h + j, sizeof(Line));
      sum = at;
      for (std::size_t t = 0; t < rows.size(); ++t) {
        float* v = row(rows[t]) + j;
        Line line;
        std::memcpy(&line, v, sizeof(Line));
        sum += g[t] * line;
        line += g[t] * at;
        std::memcpy(v, &line, sizeof(Line));
      }
      std::memcpy(h + j, &sum, sizeof(Line));
    }
  }

  // Asks for all lines of a row. Rows are drawn at random, and the processor cannot know how long they are.
  void prefetch(Index k) const {
    const float* v = row(k);
    for (std::size_t j = 0; j < width_; j += line_floats) __builtin_prefetch(v + j, 1);
  }

 private:
  // A vector of the compiler (GCC and Clang). With sixteen floats in a plain array GCC 12 keeps the sums of move() one
  // by one. The compiler splits the vector where the processor's registers are narrower.
  using Line = float __attribute__((vector_size(line_floats * sizeof(float))));

  float* row(Index k) const { return values_ + static_cast<std::size_t>(k) * width_; }

  static float dot(const float* a, const float* b, std::size_t width) {
    Line sums{};
    for (std::size_t j = 0; j < width; j += line_floats) {
      Line x, y;
      std::memcpy(&x, a + j, sizeof(Line));
      std::memcpy(&y, b + j, sizeof(Line));
      sums += x * y;
    }
    // Halves are added, which is four additions deep where one after the other would be sixteen.
    float lanes[line_floats];
    std::memcpy(lanes, &sums, sizeof(Line));
    for (std::size_t half = line_floats / 2; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    return lanes[0];
  }

  float* values_;
  std::size_t width_;
};

}  // namespace manyclass
