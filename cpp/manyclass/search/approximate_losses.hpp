// Losses and gradients of points from the classes that a search finds, point by point: message_passing.hpp for many.
#pragma once

#include <string>
#include <vector>

#include "manyclass/objective/label_loss.hpp"
#include "manyclass/search/cluster_index.hpp"
#include "manyclass/search/decomposed_index.hpp"
#include "manyclass/search/gmp_options.hpp"

namespace manyclass {

// The gradient of point i stands at [indptr[i], indptr[i + 1]) of ids and values.
struct ApproximateLosses {
  std::vector<double> losses;
  std::vector<Offset> indptr;
  std::vector<Index> ids;
  std::vector<float> values;
  // What was done for each point; see GmpMemory.
  std::vector<Offset> n_found;
  std::vector<Offset> n_exact;
  std::vector<Offset> n_scanned;
  std::vector<Offset> n_multiplied;  // for centroids, rows scanned and exact scores
  std::vector<char> certified;
  std::vector<double> rest;  // the gradient of each class that is not listed, by the printed rule
};

// "full" or "frank_wolfe", "mask" or "zero", "blocks" or "active", "exact_scores" or "printed". Throw
// std::invalid_argument for other names.
GmpStep gmp_step_named(const std::string& name);
Rest rest_named(const std::string& name);
GmpAnswer gmp_answer_named(const std::string& name);
GmpRule gmp_rule_named(const std::string& name);

// A point without labels has loss 0. Throws std::invalid_argument where queries, labels or options do not fit.
template <class AnyIndex>  // ClusterIndex or DecomposedIndex
ApproximateLosses approximate_losses(const AnyIndex& index, const DenseView& queries, const Excluded& labels,
                                     const GmpOptions& options, const LabelLoss& loss, int n_threads);

}  // namespace manyclass
