// How many clusters a search has to probe: where the best rows of queries stand among the clusters nearest to these.
#pragma once

#include <vector>

#include "manyclass/search/cluster_index.hpp"
#include "manyclass/search/decomposed_index.hpp"

namespace manyclass {

// Of the k best rows of all queries, how many stand in the nearest cluster, the second nearest and so on, (C): a search
// that probes n clusters finds those of the first n numbers. Of a DecomposedIndex they are the k best rows of each
// block by the block's scores, and its clusters. Throws std::invalid_argument as a search does.
std::vector<Offset> rows_by_rank(const ClusterIndex& index, const DenseView& queries, std::size_t k,
                                 const Excluded& excluded, int n_threads, Isa isa);
std::vector<Offset> rows_by_rank(const DecomposedIndex& index, const DenseView& queries, std::size_t k,
                                 const Excluded& excluded, int n_threads, Isa isa);

}  // namespace manyclass
