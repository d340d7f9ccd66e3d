// Every class: the sum over wrong classes itself, no sampling.
#pragma once

#include <algorithm>
#include <span>

#include "manyclass/core/rng.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct AllClasses {
  using Classes = ClassRange;

  Index n_classes;

  std::size_t capacity() const { return static_cast<std::size_t>(n_classes); }

  ClassRange draw(Rng, Index label, std::span<Index>, std::span<float> alpha) const {
    std::fill_n(alpha.data(), capacity(), 1.0F);
    alpha[static_cast<std::size_t>(label)] = 0;
    return {0, n_classes};
  }
};

}  // namespace manyclass
