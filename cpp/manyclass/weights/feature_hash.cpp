// See feature_hash.hpp.
#include "manyclass/weights/feature_hash.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace manyclass {

std::int32_t murmur_hash(Index key, std::uint32_t seed) {
  std::uint32_t k = std::bit_cast<std::uint32_t>(key) * 0xcc9e2d51U;
  k = std::rotl(k, 15) * 0x1b873593U;
  std::uint32_t h = std::rotl(seed ^ k, 13) * 5U + 0xe6546b64U;
  h ^= sizeof(Index);
  h = (h ^ (h >> 16)) * 0x85ebca6bU;
  h = (h ^ (h >> 13)) * 0xc2b2ae35U;
  return std::bit_cast<std::int32_t>(h ^ (h >> 16));
}

HashedRows hash_features(const CsrView& x, Index n_columns, std::uint32_t seed) {
  if (n_columns < 1) throw std::invalid_argument("there must be a column to hash onto");
  HashedRows found;
  found.indptr.push_back(0);
  found.indices.reserve(x.indices.size());
  found.values.reserve(x.indices.size());
  std::vector<std::pair<Index, float>> row;
  for (Index i = 0; i < x.n_rows(); ++i) {
    const SparseRow own = x.row(i);
    row.clear();
    for (std::size_t n = 0; n < own.indices.size(); ++n) {
      const std::int64_t hash = murmur_hash(own.indices[n], seed);  // whose absolute value may have no place in 32 bits
      row.emplace_back(static_cast<Index>(std::abs(hash) % n_columns), hash < 0 ? -own.values[n] : own.values[n]);
    }
    std::ranges::stable_sort(row, {}, [](const auto& one) { return one.first; });
    for (const auto& [column, value] : row) {
      if (!found.indices.empty() && found.indptr.back() < static_cast<Offset>(found.indices.size()) &&
          found.indices.back() == column) {
        found.values.back() += value;
      } else {
        found.indices.push_back(column);
        found.values.push_back(value);
      }
    }
    found.indptr.push_back(static_cast<Offset>(found.indices.size()));
  }
  return found;
}

}  // namespace manyclass
