// The Huffman tree over words: p(y | x) = prod over the path to y of sigma(+-<h_x, v_n>) (Mikolov et al. 2013).
//
// A word's path is as long as its code. So the mean length over the corpus is within one of the corpus's entropy in
// bits.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// The path of word y stands at positions [starts[y], starts[y + 1]) of `nodes`, from the root, and of `signs` (+1 or
// -1).
struct HuffmanTree {
  std::vector<Offset> starts;
  std::vector<Index> nodes;  // inner nodes, V - 1 of them
  std::vector<float> signs;

  Index longest() const;
};

// `counts` must be in descending order, and at least two.
HuffmanTree huffman_tree(std::span<const Offset> counts);

}  // namespace manyclass
