// The one place where the losses of points with several labels are compiled.
#include "manyclass/objective/label_loss.hpp"

namespace manyclass {

double value_of(const LabelLoss& any_loss, const LabelScores& z, LabelGradient& g, LossMemory& memory, Isa isa) {
  return std::visit(
      [&](const auto& loss) {
        double value = 0;
        run_with(isa, [&] { value = loss(z, g, memory); });
        return value;
      },
      any_loss);
}

}  // namespace manyclass
