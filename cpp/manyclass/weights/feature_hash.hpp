// Feature hashing (Weinberger et al., ICML 2009), as scikit-learn's FeatureHasher makes it of columns by their numbers.
//
// Column j is added to column |h(j)| mod n_columns, with the sign of h(j), h being MurmurHash3 of the four bytes of j.
#pragma once

#include <cstdint>
#include <vector>

#include "manyclass/core/csr.hpp"

namespace manyclass {

// MurmurHash3_x86_32 of the bytes of an integer, as a signed number.
std::int32_t murmur_hash(Index key, std::uint32_t seed);

// Rows of a sparse matrix, their columns sorted and distinct.
struct HashedRows {
  std::vector<Offset> indptr;
  std::vector<Index> indices;
  std::vector<float> values;
};

// Throws std::invalid_argument where there are no columns to hash onto.
HashedRows hash_features(const CsrView& x, Index n_columns, std::uint32_t seed);

}  // namespace manyclass
