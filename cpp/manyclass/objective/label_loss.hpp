// The losses of points with several labels, by name.
#pragma once

#include <string_view>
#include <variant>

#include "manyclass/core/simd.hpp"
#include "manyclass/objective/cross_entropy.hpp"
#include "manyclass/objective/decoupled.hpp"
#include "manyclass/objective/logistic.hpp"
#include "manyclass/objective/pick_all_normalized.hpp"
#include "manyclass/objective/smoothed_margin.hpp"
#include "manyclass/objective/triplet.hpp"

namespace manyclass {

// The list of them; the registry reads it.
using LabelLoss = std::variant<CrossEntropy, PickAllNormalized, Decoupled, LogisticOfEach, SmoothedMargin, Triplet>;

// `smoothing` is that of the margin, >= 0; the others have none.
inline LabelLoss label_loss(std::string_view name, double smoothing) {
  return with_part<LabelLoss>(Alternatives<LabelLoss>{}, "loss", name,
                              [&]<class Loss>() -> LabelLoss { return part_with<Loss>({{"smoothing", smoothing}}); });
}

// Its value at the scores z, and its gradient.
double value_of(const LabelLoss& any_loss, const LabelScores& z, LabelGradient& g, LossMemory& memory, Isa isa);

}  // namespace manyclass
