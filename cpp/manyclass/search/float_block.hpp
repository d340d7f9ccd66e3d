// Some rows of few columns with their ids, stored by column in groups of sixteen: a scan reads them as they are.
//
// Where rows are short, bytes with bounds (codes.hpp) save nothing: the bounds of a row are as long as its sixteen
// bytes, and of the best hundredth of all rows every exact score has to be fetched from elsewhere. A scan of floats in
// place gives the exact scores at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "manyclass/core/types.hpp"
#include "manyclass/core/vectors.hpp"
#include "manyclass/search/codes.hpp"

namespace manyclass {

class FloatBlock {
 public:
  using Shape = std::size_t;

  explicit FloatBlock(std::size_t n_features) : n_features_(n_features) {}

  std::size_t size() const { return ids_.size(); }
  std::span<const Index> ids() const { return ids_; }

  void reserve(std::size_t n_rows);
  void append(Index id, DenseRow w, Isa isa);
  void replace(std::size_t slot, DenseRow w, Isa isa);
  // Returns the id of the row that has taken the slot, or -1 where the last slot was removed.
  Index remove(std::size_t slot);
  void prefetch(std::size_t slot) const {
    const std::size_t first = slot / group_rows * n_features_;
    if (first >= lines_.size()) return;
    for (std::size_t j = 0; j < n_features_; ++j) __builtin_prefetch(&lines_[first + j], 1);
  }

  // z[slot] = w.q for each row; z has room for size() rounded up to whole groups.
  void scores(DenseRow q, Isa isa, float* z) const;

 private:
  struct alignas(64) Line {
    std::array<float, group_rows> of_row{};
  };

  std::size_t n_features_;
  std::vector<Line> lines_;  // group by group, a line a column
  std::vector<Index> ids_;
};

// By the compiler's own vectors (core/vectors.hpp). Loss and gradient from 5 of 200 clusters of 8 blocks, K = 10^5,
// D = 128, AVX-512, one thread of an AMD EPYC: 374 us scalar, 225 by vectors, 156 with lines asked for ahead.
inline void FloatBlock::scores(DenseRow q, Isa isa, float* z) const {
  const std::size_t width = q.size(), n_groups = (ids_.size() + group_rows - 1) / group_rows;
  with_vectors(isa, [&]<std::size_t Bytes>() {
    constexpr std::size_t parts = sizeof(Line) / Bytes, lanes = Bytes / sizeof(float);
    constexpr std::size_t ahead = 48;  // the processor's own prefetching stops at each page
    // Groups: one running sum would wait for itself at each column, and 16 are too many for 16 registers.
    constexpr std::size_t together = 4 * parts < n_registers<Bytes> ? 4 : 2;
    const auto score = [&]<std::size_t Groups>(std::size_t first) {
      const Line* line = lines_.data() + first * width;
      Vector<float, Bytes> sums[Groups][parts] = {};
      for (std::size_t j = 0; j < width; ++j) {
        const float q_j = q[j];
#pragma GCC unroll 4
        for (std::size_t g = 0; g < Groups; ++g) {
          const Line& w = line[j + g * width];
          __builtin_prefetch(&w + ahead);
#pragma GCC unroll 4
          for (std::size_t p = 0; p < parts; ++p) {
            Vector<float, Bytes> part;
            std::memcpy(&part, w.of_row.data() + p * lanes, Bytes);
            sums[g][p] += part * q_j;
          }
        }
      }
#pragma GCC unroll 4
      for (std::size_t g = 0; g < Groups; ++g) {
#pragma GCC unroll 4
        for (std::size_t p = 0; p < parts; ++p) {
          std::memcpy(z + (first + g) * group_rows + p * lanes, &sums[g][p], Bytes);
        }
      }
    };
    std::size_t first = 0;
    for (; first + together <= n_groups; first += together) score.template operator()<together>(first);
    for (; first < n_groups; ++first) score.template operator()<1>(first);
  });
}

}  // namespace manyclass
