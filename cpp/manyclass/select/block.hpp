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
  static constexpr Facts facts{
      .name = "block",
      .sentence = "One run of neighbouring classes in an order drawn at random.",
      .flags = {flag::label},
  };
  using Classes = ClassRange;
  static constexpr bool repeats = false;

  Index n_classes;
  Index size;  // m, in [1, K]
  bool with_label = false;

  static Block make(const SelectArguments& a) { return {a.n_classes, a.at_most(a.n_classes), a.with_label}; }

  Index n_blocks() const { return (n_classes - 1) / size + 1; }
  std::size_t capacity() const { return static_cast<std::size_t>(size); }
  float label_alpha(Index) const { return static_cast<float>(n_blocks()); }
  double inclusion(Index) const { return 1.0 / n_blocks(); }

  std::size_t n_random(ClassRange classes) const { return classes.size(); }

  ClassRange draw(Rng rng, Index, std::span<const Index> labels, const DrawBuffers& out) const {
    const Index begin = static_cast<Index>(rng.below(static_cast<std::uint32_t>(n_blocks()))) * size;
    const ClassRange block{begin, std::min(size, n_classes - begin)};
    std::fill_n(out.alpha.data(), block.size(), static_cast<float>(n_blocks()));
    if (!with_label) leave_out(labels, begin, out.alpha.first(block.size()));
    return block;
  }
};

static_assert(Selection<Block>, "see select/draw.hpp");

}  // namespace manyclass
