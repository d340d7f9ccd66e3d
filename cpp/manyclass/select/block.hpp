// One of the ceil(K/m) blocks of m neighbouring classes, drawn uniformly.
//
// Classes stand in an order drawn at random before training, so a block is a uniform draw without replacement. Given
// the order the estimate stays unbiased: each wrong class is in one block, seen with probability 1 / n_blocks and
// weighted by n_blocks; the label and a short last block need no correction.
#pragma once

#include <algorithm>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct Block {
  using Classes = ClassRange;
  static constexpr bool repeats = false;

  Index n_classes;
  Index size;  // m, in [1, K]
  bool with_label = false;

  Index n_blocks() const { return (n_classes - 1) / size + 1; }
  std::size_t capacity() const { return static_cast<std::size_t>(size); }
  float label_alpha(Index) const { return static_cast<float>(n_blocks()); }
  double inclusion(Index) const { return 1.0 / n_blocks(); }

  ClassRange draw(Rng rng, Index, Index label, const DrawBuffers& out) const {
    const Index begin = static_cast<Index>(rng.below(static_cast<std::uint32_t>(n_blocks()))) * size;
    const ClassRange block{begin, std::min(size, n_classes - begin)};
    std::fill_n(out.alpha.data(), block.size(), static_cast<float>(n_blocks()));
    const Index at = label - begin;
    if (!with_label && at >= 0 && at < block.count) out.alpha[static_cast<std::size_t>(at)] = 0;
    return block;
  }
};

}  // namespace manyclass
