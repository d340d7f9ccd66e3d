// m distinct wrong classes, every subset equally likely.
#pragma once

#include <algorithm>
#include <span>

#include "manyclass/core/rng.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct Uniform {
  using Classes = ClassList;

  Index n_classes;
  Index size;  // m, in [1, K - 1]

  std::size_t capacity() const { return static_cast<std::size_t>(size); }

  // Floyd's algorithm (Bentley & Floyd, CACM 1987) on the K - 1 wrong classes, kept sorted so that "is it
  // there?" is a binary search: O(m log m) comparisons and, for the insertions, m^2/4 moves of neighbouring
  // words.
  ClassList draw(Rng rng, Index label, std::span<Index> storage, std::span<float> alpha) const {
    Index* const begin = storage.data();
    Index* end = begin;
    for (Index j = n_classes - 1 - size; j < n_classes - 1; ++j) {
      Index k = static_cast<Index>(rng.below(static_cast<std::uint32_t>(j) + 1));
      Index* at = std::lower_bound(begin, end, k);
      if (at != end && *at == k) {
        k = j;  // j is larger than everything drawn so far
        at = end;
      }
      std::move_backward(at, end, end + 1);
      *at = k;
      ++end;
    }
    for (Index* k = std::lower_bound(begin, end, label); k != end; ++k) ++*k;  // skip the label
    std::fill_n(alpha.data(), capacity(), static_cast<float>(n_classes - 1) / static_cast<float>(size));
    return {begin, capacity()};
  }
};

}  // namespace manyclass
