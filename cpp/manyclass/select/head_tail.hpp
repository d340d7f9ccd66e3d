// A certain head and a random tail: the head's classes count exactly, a uniformly drawn block stands for all others.
//
// Unbiased whatever the head is, as long as it does not depend on this visit's draw: a head class has weight 1 in every
// draw, any other wrong class is in one block and weighted by the number of blocks. The head of a point is a row of
// `heads`, which the caller may change between passes.
#pragma once

#include <algorithm>
#include <span>

#include "manyclass/select/block.hpp"

namespace manyclass {

struct HeadTail {
  static constexpr Facts facts{
      .name = "head_tail",
      .sentence = "The classes of a point's head for certain, and a block for all others.",
      .flags = {flag::heads},
  };
  using Classes = ClassList;
  static constexpr bool repeats = false;

  Block tail;
  std::span<const Index> heads;  // N x head_size; -1 where there are fewer
  Index head_size;
  static constexpr bool with_label = false;

  static HeadTail make(const SelectArguments& a) {
    return {{a.n_classes, a.at_most(a.n_classes)}, a.heads, a.head_size};
  }

  std::size_t capacity() const { return tail.capacity() + static_cast<std::size_t>(head_size); }
  float label_alpha(Index k) const { return tail.label_alpha(k); }
  // Of the tail: a class shrinks by the ridge when its block is drawn, not when it is in a head.
  double inclusion(Index k) const { return tail.inclusion(k); }

  std::span<const Index> head_of(Index point) const {
    const auto width = static_cast<std::size_t>(head_size);
    return heads.subspan(static_cast<std::size_t>(point) * width, width);
  }

  // How many of the drawn classes are the block's: they come first.
  std::size_t n_random(ClassList classes) const {
    return static_cast<std::size_t>(std::min(tail.size, tail.n_classes - classes[0]));
  }

  // The block's classes first, then the head's that are not among them.
  ClassList draw(Rng rng, Index point, std::span<const Index> labels, const DrawBuffers& out) const {
    const ClassRange block = tail.draw(rng, point, labels, out);
    std::size_t n = 0;
    for (; n < block.size(); ++n) out.list[n] = block[n];
    for (const Index k : head_of(point)) {
      if (k < 0 || std::binary_search(labels.begin(), labels.end(), k)) continue;
      if (k >= block.begin && k < block.end()) {
        out.alpha[static_cast<std::size_t>(k - block.begin)] = 1;
      } else if (std::find(out.list.begin() + block.count, out.list.begin() + static_cast<std::ptrdiff_t>(n), k) ==
                 out.list.begin() + static_cast<std::ptrdiff_t>(n)) {
        out.list[n] = k;
        out.alpha[n] = 1;
        ++n;
      }
    }
    return {out.list.data(), n};
  }

  static constexpr std::size_t max_head = 64;
};

static_assert(Selection<HeadTail>, "see select/draw.hpp");

}  // namespace manyclass
