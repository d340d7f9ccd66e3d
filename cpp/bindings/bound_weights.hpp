// Weights as Python holds them.
#pragma once

#include <cstddef>
#include <optional>

#include "bindings/arrays.hpp"
#include "manyclass/evaluate/phi.hpp"
#include "manyclass/evaluate/weights.hpp"

namespace manyclass {

// Weights with what their points are made of.
struct BoundWeights : Weights {
  Index n_features;
  std::optional<Phi> phi;
  std::size_t block_numbers;
};

}  // namespace manyclass
