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

// The pairs of a stored feature and a label that at least `min_count` rows of x have; a list of labels for each row.
OwnedSupport support_of(const CsrView& x, const Excluded& labels, Index n_classes, Index min_count);

// How many weights rows meet in all, if features are met so often (`times`, one number for each feature) and a pair of a
// feature and a class has a weight where at least so many rows have both: a sum for each of the `least` numbers of rows.
std::vector<std::int64_t> weights_met(const CsrView& x, const Excluded& labels, Index n_classes,
                                      std::span<const std::int64_t> times, std::span<const Index> least);

}  // namespace manyclass
