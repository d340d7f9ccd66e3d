// See csr.hpp.
#include "manyclass/core/csr.hpp"

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

}  // namespace manyclass
