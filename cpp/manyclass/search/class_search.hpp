// The best classes of points through an index over the rows of classes, with log-probabilities whose normaliser is
// estimated: the head that was found exactly, the tail by a sample (log_normalizer.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/search/cluster_index.hpp"

namespace manyclass {

struct ClassSearch {
  std::size_t k = 1;       // classes wanted
  std::size_t n_head = 1;  // found for the normaliser, at least k
  std::size_t n_tail = 1;  // drawn for it
  std::size_t n_probe = 1;
  std::uint64_t seed = 0;
  std::uint64_t first = 0;  // number of the first point, a multiple of queries_per_sample
  int n_threads = 1;
  Isa isa = Isa::baseline;
};

struct ClassesFound {
  std::vector<Index> ids;    // k for each point, best first
  std::vector<float> log_p;  // of these
  std::vector<double> std;   // of the logarithm of each point's normaliser
};

// Where the probed clusters have fewer than k rows, all are scanned. Throws std::invalid_argument as a search does.
ClassesFound best_classes(const ClusterIndex& index, const Queries& queries, const ClassSearch& search);

// Weights of classes as they stand in memory: that of class k on feature j is data[k by_class + j by_feature].
struct StridedRows {
  const float* data = nullptr;
  std::ptrdiff_t by_class = 0, by_feature = 0;
  std::size_t n_classes = 0, n_features = 0;
};

// A dense row for each class: its weights, times its `scale` where there are scales, and behind them its intercept
// where there are intercepts, less the mean of all rows. The mean adds the same to each score of a point: neither ranks
// nor probabilities change, and shorter rows cluster better.
std::vector<float> centred_class_rows(const StridedRows& weights, std::span<const float> scale,
                                      std::span<const float> intercept);

// What is predicted to be slower for a row: scoring all classes, or a search that probes a share of the clusters.
struct SearchedClasses {
  std::size_t n_classes = 0;
  std::size_t n_columns = 0;   // of the index, which is dense
  double values = 0;           // that scoring all classes reads of a row
  bool sparse = false;         // whether they stand apart in memory
  std::size_t n_clusters = 1;  // of the index
  double share = 1;            // of them that is probed
  std::size_t n_exact = 0;     // classes of head and tail, whose scores are made exactly
};

// Microseconds of one thread, of scoring all classes and of the search.
std::pair<double, double> predicted_microseconds(const SearchedClasses& of);

// The norm of the longest row, by which those of spherical k-means are extended; 0 where a number is not finite.
float norm_of_longest(const RowsView& rows, std::size_t n_rows);

}  // namespace manyclass
