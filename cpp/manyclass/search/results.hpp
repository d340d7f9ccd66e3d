// Results of searches as arrays: a row for each query, or lists one behind the other.
#pragma once

#include <span>
#include <vector>

#include "manyclass/search/cluster_index.hpp"
#include "manyclass/search/decomposed_index.hpp"

namespace manyclass {

// Throw std::invalid_argument where the options, queries or exclusions do not fit the index.
void check(const Request& request, const Queries& queries, const ClusterIndex& index);
void check(const FindOptions& options, std::size_t n_rows, std::size_t n_clusters);
void check_columns(const Queries& queries, std::size_t n_features);

// Row i of `scores` and `ids` (n x request.k): best first, -infinity and -1 where fewer are left in the whole index,
// of a DecomposedIndex in the clusters that are read.
void search_into(const ClusterIndex& index, const Queries& queries, const Request& request, std::span<float> scores,
                 std::span<Offset> ids);
void search_into(const DecomposedIndex& index, const DenseView& queries, std::size_t k, const FindOptions& options,
                 const Excluded& excluded, int n_threads, std::span<float> scores, std::span<Offset> ids);

// Those of query i stand at [indptr[i], indptr[i + 1]), best first.
struct Lists {
  std::vector<Offset> indptr;
  std::vector<Offset> ids;
  std::vector<float> scores;
};

// All rows above each query's threshold.
Lists rows_above(const ClusterIndex& index, const Queries& queries, const Request& request);

// Cluster of each row, a block after the other; and rows in each cluster.
std::vector<Index> labels_of(const ClusterIndex& index);
std::vector<Index> labels_of(const DecomposedIndex& index);
std::vector<Index> sizes_of(const ClusterIndex& index);

// C sum_c n_c^2 / K^2: 1 for equal clusters, C where all rows stand in one.
double imbalance_of(const ClusterIndex& index);

}  // namespace manyclass
