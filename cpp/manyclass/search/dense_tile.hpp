// Some neighbouring queries as dense rows of one width: as they stand in memory where that is possible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <variant>
#include <vector>

#include "manyclass/core/csr.hpp"

namespace manyclass {

using Queries = AnyData;

class DenseTile {
 public:
  // Queries [begin, begin + n); `width` may be larger than theirs, the rest is 0.
  DenseTile(const Queries& queries, std::size_t begin, std::size_t n, std::size_t width) : width_(width) {
    const auto* dense = std::get_if<DenseView>(&queries);
    if (dense != nullptr && static_cast<std::size_t>(dense->n_cols) == width) {
      data_ = dense->data.data() + begin * width;
      return;
    }
    copy_.resize(n * width);
    for (std::size_t i = 0; i < n; ++i) {
      float* out = copy_.data() + i * width;
      const auto row = static_cast<Index>(begin + i);
      if (dense != nullptr) {
        std::ranges::copy(dense->row(row), out);
      } else {
        const SparseRow sparse = std::get<CsrView>(queries).row(row);
        for (std::size_t j = 0; j < sparse.indices.size(); ++j) out[sparse.indices[j]] = sparse.values[j];
      }
    }
    data_ = copy_.data();
  }

  DenseRow operator[](std::size_t i) const { return {data_ + i * width_, width_}; }

 private:
  std::size_t width_;
  const float* data_ = nullptr;
  std::vector<float> copy_;
};

}  // namespace manyclass
