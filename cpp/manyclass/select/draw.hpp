// What a selection writes for one visit, beside the classes themselves.
#pragma once

#include <span>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct DrawBuffers {
  std::span<Index> list;   // room for the classes of a list
  std::span<float> alpha;  // inclusion weights
  std::span<float> times;  // how often a class was drawn (selections with replacement only)
};

}  // namespace manyclass
