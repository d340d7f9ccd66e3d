// m distinct wrong classes, every subset equally likely.
#pragma once

#include <algorithm>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct Uniform {
  using Classes = ClassList;
  static constexpr bool repeats = false;

  Index n_classes;
  Index size;  // m, in [1, n_candidates()]
  bool with_label = false;

  Index n_candidates() const { return with_label ? n_classes : n_classes - 1; }
  std::size_t capacity() const { return static_cast<std::size_t>(size); }
  float label_alpha(Index) const { return static_cast<float>(n_candidates()) / static_cast<float>(size); }
  double inclusion(Index) const { return static_cast<double>(size) / n_candidates(); }

  // Floyd's algorithm (Bentley & Floyd, CACM 1987), kept sorted so that "is it there?" is a binary search:
  // O(m log m) comparisons and, for the insertions, m^2/4 moves of neighbouring words.
  ClassList draw(Rng rng, Index, Index label, const DrawBuffers& out) const {
    Index* const begin = out.list.data();
    Index* end = begin;
    for (Index j = n_candidates() - size; j < n_candidates(); ++j) {
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
    if (!with_label) {
      for (Index* k = std::lower_bound(begin, end, label); k != end; ++k) ++*k;  // skip the label
    }
    std::fill_n(out.alpha.data(), capacity(), label_alpha(label));
    return {begin, capacity()};
  }
};

}  // namespace manyclass
