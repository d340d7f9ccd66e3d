// The best classes of points through an index over the rows of classes, with log-probabilities whose normaliser is
// estimated: the head that was found exactly, the tail by a sample (log_normalizer.hpp).
#pragma once

#include <cstdint>
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

}  // namespace manyclass
