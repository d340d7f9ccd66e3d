// Building of the Huffman tree, which huffman.hpp describes.
#include "manyclass/text/huffman.hpp"

#include <algorithm>

namespace manyclass {

Index HuffmanTree::longest() const {
  Offset most = 0;
  for (std::size_t y = 1; y < starts.size(); ++y) most = std::max(most, starts[y] - starts[y - 1]);
  return static_cast<Index>(most);
}

// The method has two queues (van Leeuwen 1976): words by ascending count, and inner nodes, which are made in ascending
// order.
HuffmanTree huffman_tree(std::span<const Offset> counts) {
  const std::size_t n = counts.size(), n_inner = n - 1;
  std::vector<Offset> sums(counts.begin(), counts.end());
  std::vector<std::size_t> parent(n + n_inner);
  std::vector<bool> right(n + n_inner);
  sums.resize(n + n_inner);
  std::size_t word = n, inner = n;  // words before `word` and inner nodes from `inner` on have no parent yet
  const auto take = [&](std::size_t made) {
    const bool from_words = word > 0 && (inner == made || sums[word - 1] <= sums[inner]);
    return from_words ? --word : inner++;
  };
  for (std::size_t made = n; made < n + n_inner; ++made) {
    const std::size_t a = take(made), b = take(made);
    sums[made] = sums[a] + sums[b];
    parent[a] = parent[b] = made;
    right[b] = true;
  }

  HuffmanTree tree{{0}, {}, {}};
  const std::size_t root = n + n_inner - 1;
  for (std::size_t y = 0; y < n; ++y) {
    const auto start = tree.nodes.size();
    for (std::size_t at = y; at != root; at = parent[at]) {
      tree.nodes.push_back(static_cast<Index>(parent[at] - n));
      tree.signs.push_back(right[at] ? -1.0F : 1.0F);
    }
    std::reverse(tree.nodes.begin() + static_cast<std::ptrdiff_t>(start), tree.nodes.end());
    std::reverse(tree.signs.begin() + static_cast<std::ptrdiff_t>(start), tree.signs.end());
    tree.starts.push_back(static_cast<Offset>(tree.nodes.size()));
  }
  return tree;
}

}  // namespace manyclass
