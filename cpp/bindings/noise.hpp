// The noise of a random utility model by its name.
#pragma once

#include <stdexcept>
#include <string>

#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

inline NoiseKind noise_named(const std::string& name) {
  if (name == "gumbel") return GumbelNoise{};
  if (name == "normal") return NormalNoise{};
  if (name == "logistic") return LogisticNoise{};
  throw std::invalid_argument("noise is '" + name + "'; it must be one of 'gumbel', 'normal', 'logistic'");
}

}  // namespace manyclass
