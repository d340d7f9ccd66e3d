// The support of sparse weights: which pairs of a feature and a class occur together in the training data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/lists.hpp"

namespace manyclass {

struct OwnedSupport {
  std::vector<Offset> indptr;  // D + 1
  std::vector<Index> classes;  // of each feature, sorted and distinct
};

// The pairs of a stored feature and a label that at least `min_count` rows of x have, or that any row has where the
// feature occurs with at most `few_classes` labels; a list of labels for each row.
OwnedSupport support_of(const CsrView& x, const Excluded& labels, Index n_classes, Index min_count, Index few_classes);

// How many weights rows meet in all, where feature j is met times[j] times. For each number m in `least` there is a
// sum, which counts the pairs of a feature and a class that at least m rows have, and all of features with few classes.
std::vector<std::int64_t> weights_met(const CsrView& x, const Excluded& labels, Index n_classes,
                                      std::span<const std::int64_t> times, std::span<const Index> least,
                                      Index few_classes);

}  // namespace manyclass
