// See csr.hpp.
#include "manyclass/core/csr.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace manyclass {

void check(const CsrView& x) {
  if (x.indptr.empty() || x.indptr.front() != 0 || x.indptr.back() != static_cast<Offset>(x.indices.size()) ||
      x.indices.size() != x.data.size()) {
    throw std::invalid_argument("indptr, indices and data do not describe one CSR matrix");
  }
  for (std::size_t i = 1; i < x.indptr.size(); ++i) {
    if (x.indptr[i] < x.indptr[i - 1]) {
      throw std::invalid_argument("indptr decreases at row " + std::to_string(i - 1));
    }
  }
  for (const Index j : x.indices) {
    if (j < 0 || j >= x.n_cols) {
      throw std::invalid_argument("feature " + std::to_string(j) + " is outside [0, " + std::to_string(x.n_cols) + ")");
    }
  }
}

bool is_canonical(const CsrView& x) {
  const auto n = static_cast<Offset>(x.indices.size());
  if (x.indptr.empty() || x.indptr.front() != 0 || x.indptr.back() != n || x.indices.size() != x.data.size()) {
    return false;
  }
  for (std::size_t i = 1; i < x.indptr.size(); ++i) {
    if (x.indptr[i] < x.indptr[i - 1] || x.indptr[i] > n) return false;
    const SparseRow row = x.row(static_cast<Index>(i - 1));
    for (std::size_t s = 1; s < row.indices.size(); ++s) {
      if (row.indices[s] <= row.indices[s - 1]) return false;
    }
    if (!row.indices.empty() && (row.indices.front() < 0 || row.indices.back() >= x.n_cols)) return false;
  }
  return std::ranges::all_of(x.data, [](float value) { return 0 * value == 0; });
}

}  // namespace manyclass
