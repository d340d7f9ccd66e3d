// Feature-major weights for sparse points: row j holds the weight of feature j for every class.
//
// Rows are padded to a cache line (16 floats). A point with n non-zeros reads n lines to score one class, and the same
// n lines to score 16 neighbouring classes. So sixteen negatives cost the memory traffic of one.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <span>
#include <type_traits>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/vectors.hpp"
#include "manyclass/weights/adapt.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

template <class Float>  // float, or const float for weights that are only read
class FeatureRows {
 public:
  using Weight = Float;
  using Data = CsrView;

  FeatureRows(std::span<Float> weights, Index n_features)
      : weights_(weights.data()),
        end_(weights.data() + weights.size()),
        stride_(n_features ? weights.size() / static_cast<std::size_t>(n_features) : 0) {
    assert(stride_ % line_floats == 0);
  }

  float score(SparseRow x, Index k) const {
    float z = 0;
    for (std::size_t n = 0; n < x.indices.size(); ++n) z += x.values[n] * at(x.indices[n], k)[0];
    return z;
  }

  void scores(SparseRow x, ClassList classes, std::span<float> z) const {
    std::fill_n(z.data(), classes.size(), 0.0F);
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const Float* row = at(x.indices[n], 0);
      for (std::size_t c = 0; c < classes.size(); ++c) z[c] += x.values[n] * row[classes[c]];
    }
  }

  void scores(SparseRow x, ClassRange classes, std::span<float> z) const {
    std::size_t c = 0;
    for (; c + wide <= classes.size(); c += wide) tile<wide>(x, classes.begin, c, wide, z);
    for (; c + 4 * line_floats <= classes.size(); c += 4 * line_floats) {
      tile<4 * line_floats>(x, classes.begin, c, 4 * line_floats, z);
    }
    for (; c + line_floats <= classes.size(); c += line_floats) {
      tile<line_floats>(x, classes.begin, c, line_floats, z);
    }
    if (c < classes.size()) tile<line_floats>(x, classes.begin, c, classes.size() - c, z);
  }

  // w_k += a x
  void add(SparseRow x, Index k, float a)
    requires(!std::is_const_v<Float>)
  {
    for (std::size_t n = 0; n < x.indices.size(); ++n) at(x.indices[n], k)[0] += a * x.values[n];
  }

  void add(SparseRow x, ClassList classes, std::span<const float> a, Isa)
    requires(!std::is_const_v<Float>)
  {
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      Float* row = at(x.indices[n], 0);
      for (std::size_t c = 0; c < classes.size(); ++c) row[classes[c]] += a[c] * x.values[n];
    }
  }

  void add(SparseRow x, ClassRange classes, std::span<const float> a, Isa isa)
    requires(!std::is_const_v<Float>)
  {
    std::size_t first = 0;
    // The number of factors, too, so that GCC sees that no line of one is read.
    if (std::min(classes.size(), a.size()) >= line_floats && classes.size() <= most_added) {
      with_vectors(isa, [&]<std::size_t Bytes>() {
        constexpr std::size_t lines = std::min<std::size_t>(n_registers<Bytes> / 2 / (line_bytes / Bytes), 4);
        for (; first + lines * line_floats <= classes.size(); first += lines * line_floats) {
          add_lines<Bytes, lines>(x, classes[first], a.data() + first);
        }
        for (; first + line_floats <= classes.size(); first += line_floats) {
          add_lines<Bytes, 1>(x, classes[first], a.data() + first);
        }
      });
      if (first == classes.size()) return;
    }
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      Float* row = at(x.indices[n], classes.begin);
      const float value = x.values[n];
      for (std::size_t c = first; c < classes.size(); ++c) row[c] += a[c] * value;
    }
  }

  // w_k *= a
  void multiply(Index k, float a)
    requires(!std::is_const_v<Float>)
  {
    for (Float* w = weights_ + k; w < end_; w += stride_) *w *= a;
  }

  // w_kj *= a_k for the classes of a range
  void multiply(Index j, ClassRange classes, std::span<const float> a)
    requires(!std::is_const_v<Float>)
  {
    Float* row = at(j, classes.begin);
    for (std::size_t c = 0; c < a.size(); ++c) row[c] *= a[c];
  }

  // w_kj *= a for some classes
  void multiply(Index j, ClassList classes, float a)
    requires(!std::is_const_v<Float>)
  {
    Float* row = at(j, 0);
    for (const Index k : classes) row[k] *= a;
  }

  // The adaptive step (adapt.hpp; Ruiz et al. 2018, section 4) of each weight of the classes, with the ascent gradient
  // G = a x_j.
  template <class Classes>
  void add_adaptive(SparseRow x, const Classes& classes, std::span<const float> a, float rate,
                    const FeatureRows& squares)
    requires(!std::is_const_v<Float>)
  {
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      Float* row = at(x.indices[n], 0);
      Float* square = squares.at(x.indices[n], 0);
      for (std::size_t c = 0; c < classes.size(); ++c) {
        adapt(row[classes[c]], square[classes[c]], a[c] * x.values[n], rate);
      }
    }
  }

  // The adaptive step of each weight of the classes along `gradients`, which is then 0 there.
  void descend_adaptive(SparseRow x, ClassRange classes, float rate, const FeatureRows& squares,
                        const FeatureRows& gradients)
    requires(!std::is_const_v<Float>)
  {
    for (const Index j : x.indices) {
      Float* row = at(j, classes.begin);
      Float* square = squares.at(j, classes.begin);
      Float* gradient = gradients.at(j, classes.begin);
      for (std::size_t c = 0; c < classes.size(); ++c) {
        adapt(row[c], square[c], gradient[c], rate);
        gradient[c] = 0;
      }
    }
  }

  // Asks for the lines that scoring `classes` and the label will read. The rows of one point are far apart, so the
  // processor cannot guess them.
  void prefetch(SparseRow x, ClassRange classes, Index label) const {
    constexpr Index most = 8 * line_floats;  // longer runs are streams that the processor prefetches itself
    const Index end = classes.begin + std::min(classes.count, most);
    for (const Index j : x.indices) {
      __builtin_prefetch(at(j, label), 1);
      for (Index k = classes.begin; k < end; k += static_cast<Index>(line_floats)) __builtin_prefetch(at(j, k), 1);
    }
  }

  // Asks for one line for each class of a list, or for each of the lines.
  void prefetch(SparseRow x, ClassList classes, Index label) const {
    for (const Index j : x.indices) {
      __builtin_prefetch(at(j, label), 1);
      for (const Index k : classes) __builtin_prefetch(at(j, k), 1);
    }
  }

  void prefetch(SparseRow x, const ClassLines& classes, Index label) const { prefetch(x, classes.begins, label); }

 private:
  // Long runs are summed row by row in a buffer that stays in the first-level cache (2048 floats = 8 kB). So each row
  // is read as one stream.
  static constexpr std::size_t wide = 2048;

  // sums += value * row, and asks for the beginning of the next row, until the processor has seen that it is a stream.
  static void add_stream(float value, const Float* row, const Float* next, std::array<float, wide>& sums) {
    constexpr std::size_t seen = 512;  // floats: half a page. To ask for all of the row is slower than for nothing.
    for (std::size_t c = 0; c < seen; c += line_floats) __builtin_prefetch(next + c);
    for (std::size_t l = 0; l < wide; ++l) sums[l] += value * row[l];
  }

  // Classes up to which some lines are added to in all rows before the next ones: more of them are streams.
  static constexpr std::size_t most_added = 8 * line_floats;

  // row += a * value in some lines of classes, whose factors stay in registers while the features pass.
  template <std::size_t Bytes, std::size_t Lines>
  void add_lines(SparseRow x, Index begin, const float* a) {
    constexpr std::size_t vectors = Lines * line_bytes / Bytes, lanes = Bytes / sizeof(float);
    Vector<float, Bytes> factors[vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) std::memcpy(&factors[v], a + v * lanes, Bytes);
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      Float* row = at(x.indices[n], begin);
      const float value = x.values[n];
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) {
        Vector<float, Bytes> sum;
        std::memcpy(&sum, row + v * lanes, Bytes);
        sum += factors[v] * value;
        std::memcpy(row + v * lanes, &sum, Bytes);
      }
    }
  }

  Float* at(Index j, Index k) const {
    return weights_ + static_cast<std::size_t>(j) * stride_ + static_cast<std::size_t>(k);
  }

  // Writes z[c, c + count) for the classes begin + c + [0, count), count <= width. The sums live in registers or, for
  // `wide`, in the first-level cache. Reading up to `width` is safe within a padded row.
  template <std::size_t width>
  void tile(SparseRow x, Index begin, std::size_t c, std::size_t count, std::span<float> z) const {
    std::array<float, width> sums{};
    const Index first = begin + static_cast<Index>(c);
    if (count == width) {
      for (std::size_t n = 0; n < x.indices.size(); ++n) {
        const Float* row = at(x.indices[n], first);
        const float value = x.values[n];
        if constexpr (width == wide) {
          const bool last = n + 1 == x.indices.size();  // then the first row's next stretch follows
          add_stream(value, row, last ? at(x.indices[0], first) + width : at(x.indices[n + 1], first), sums);
        } else {
          for (std::size_t l = 0; l < width; ++l) sums[l] += value * row[l];
        }
      }
    } else {
      for (std::size_t n = 0; n < x.indices.size(); ++n) {
        const Float* row = at(x.indices[n], first);
        const float value = x.values[n];
        for (std::size_t l = 0; l < count; ++l) sums[l] += value * row[l];
      }
    }
    std::copy_n(sums.data(), count, z.data() + c);
  }

  Float* weights_;
  Float* end_;
  std::size_t stride_;
};

}  // namespace manyclass
