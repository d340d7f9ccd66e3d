// The losses of points with several labels, by name.
#pragma once

#include <stdexcept>
#include <string>
#include <variant>

#include "manyclass/objective/cross_entropy.hpp"
#include "manyclass/objective/smoothed_margin.hpp"
#include "manyclass/objective/triplet.hpp"

namespace manyclass {

using LabelLoss = std::variant<CrossEntropy, SmoothedMargin, Triplet>;

// `smoothing` is that of the margin, >= 0; the others have none.
inline LabelLoss label_loss(const std::string& name, double smoothing) {
  if (name == "cross_entropy") return CrossEntropy{};
  if (name == "margin") return SmoothedMargin{smoothing};
  if (name == "triplet") return Triplet{};
  throw std::invalid_argument("loss is '" + name + "'; it must be one of 'cross_entropy', 'margin', 'triplet'");
}

}  // namespace manyclass
