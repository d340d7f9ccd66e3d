// An embedding table: row k is the vector of word k, padded with zeros to whole cache lines.
//
// Threads race on it by Hogwild: a float is read and written at once, so a row is at worst a mixture of two steps.
// tests/cpp/hogwild.supp names this class, and nothing outside of it may touch a row.
#pragma once

#include <span>

#include "manyclass/core/types.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

class EmbeddingRows {
 public:
  // `width`: floats from row to row, a multiple of line_floats.
  EmbeddingRows(std::span<float> values, std::size_t width) : values_(values.data()), width_(width) {}

  std::size_t width() const { return width_; }

  // z_t = <h, v_t> of rows t, h being row `of` of `other`.
  void scores(const EmbeddingRows& other, Index of, std::span<const Index> rows, float* z) const {
    const float* h = other.row(of);
    for (std::size_t t = 0; t < rows.size(); ++t) z[t] = dot(h, row(rows[t]), width_);
  }

  float norm_sq(Index k) const { return dot(row(k), row(k), width_); }

  // v_t += g_t h for every t, and h += sum_t g_t v_t with the v_t before; a row that is listed twice moves twice.
  void move(const EmbeddingRows& other, Index of, std::span<const Index> rows, const float* g) const {
    float* h = other.row(of);
    for (std::size_t j = 0; j < width_; j += line_floats) {
      // One line of h at a time: it and its sum stay in registers while all rows pass.
      float at[line_floats], sum[line_floats];
      for (std::size_t l = 0; l < line_floats; ++l) at[l] = h[j + l];
      for (std::size_t l = 0; l < line_floats; ++l) sum[l] = at[l];
      for (std::size_t t = 0; t < rows.size(); ++t) {
        float* v = row(rows[t]) + j;
        float old[line_floats];
        for (std::size_t l = 0; l < line_floats; ++l) old[l] = v[l];
        for (std::size_t l = 0; l < line_floats; ++l) sum[l] += g[t] * old[l];
        for (std::size_t l = 0; l < line_floats; ++l) v[l] = old[l] + g[t] * at[l];
      }
      for (std::size_t l = 0; l < line_floats; ++l) h[j + l] = sum[l];
    }
  }

  // All lines, because rows are drawn at random and the processor cannot know how long they are.
  void prefetch(Index k) const {
    const float* v = row(k);
    for (std::size_t j = 0; j < width_; j += line_floats) __builtin_prefetch(v + j, 1);
  }

 private:
  float* row(Index k) const { return values_ + static_cast<std::size_t>(k) * width_; }

  static float dot(const float* a, const float* b, std::size_t width) {
    float sums[line_floats] = {};
    for (std::size_t j = 0; j < width; j += line_floats) {
      for (std::size_t l = 0; l < line_floats; ++l) sums[l] += a[j + l] * b[j + l];
    }
    // In halves: four additions deep where one after the other would be sixteen.
    for (std::size_t half = line_floats / 2; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
    }
    return sums[0];
  }

  float* values_;
  std::size_t width_;
};

}  // namespace manyclass
