// Heads by search: the wrong classes of largest score of each point, for select/head_tail.hpp.
#pragma once

#include <span>

#include "manyclass/core/csr.hpp"
#include "manyclass/search/cluster_index.hpp"

namespace manyclass {

// Row i of `heads` (N x m) becomes the best rows of the index for point i without its label, best first, -1 where the
// n_probe probed clusters have too few. Where the index has a column more than the points, that is the intercept's, and
// points have a one there.
void search_heads(const ClusterIndex& index, const DenseView& x, std::span<const Index> labels, std::size_t n_probe,
                  int n_threads, Isa isa, std::span<Index> heads);

}  // namespace manyclass
