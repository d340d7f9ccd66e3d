// Every class: the sum over wrong classes itself, no sampling.
#pragma once

#include <algorithm>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct AllClasses {
  using Classes = ClassRange;
  static constexpr bool repeats = false;

  Index n_classes;
  bool with_label = false;  // the label counts among the classes, as importance sampling needs it

  std::size_t capacity() const { return static_cast<std::size_t>(n_classes); }
  float label_alpha(Index) const { return 1; }
  double inclusion(Index) const { return 1; }  // probability that a wrong class is selected

  ClassRange draw(Rng, Index, Index label, const DrawBuffers& out) const {
    std::fill_n(out.alpha.data(), capacity(), 1.0F);
    if (!with_label) out.alpha[static_cast<std::size_t>(label)] = 0;
    return {0, n_classes};
  }
};

}  // namespace manyclass
