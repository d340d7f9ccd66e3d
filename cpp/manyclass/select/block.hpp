// One of the ceil(K/m) blocks of m neighbouring classes, drawn uniformly.
//
// Classes stand in an order drawn at random before training, so a block is a uniform draw without
// replacement. Given the order the estimate stays unbiased: each wrong class is in one block, seen with
// probability 1 / n_blocks and weighted by n_blocks; the label and a short last block need no correction.
#pragma once

#include <algorithm>
#include <span>

#include "manyclass/core/rng.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct Block {
  using Classes = ClassRange;

  Index n_classes;
  Index size;  // m, in [1, K]

  Index n_blocks() const { return (n_classes - 1) / size + 1; }
  std::size_t capacity() const { return static_cast<std::size_t>(size); }

  ClassRange draw(Rng rng, Index label, std::span<Index>, std::span<float> alpha) const {
    const Index begin = static_cast<Index>(rng.below(static_cast<std::uint32_t>(n_blocks()))) * size;
    const ClassRange block{begin, std::min(size, n_classes - begin)};
    std::fill_n(alpha.data(), block.size(), static_cast<float>(n_blocks()));
    const Index at = label - begin;
    if (at >= 0 && at < block.count) alpha[static_cast<std::size_t>(at)] = 0;
    return block;
  }
};

}  // namespace manyclass
