// Threads that race on W by Hogwild still learn the planted classes.
//
// Apart from the other tests, because here ThreadSanitizer has something to report: hogwild.supp lists what.
#include <cmath>

#include "check.hpp"
#include "planted.hpp"

namespace manyclass::testing {
namespace {

void racing_threads_learn_the_planted_classes() {
  const double start = std::log(static_cast<double>(Planted::n_classes));
  for (const bool sparse : {true, false}) {
    for (const std::string& selection : selection_names()) {
      Planted planted(sparse);
      Plan plan;
      plan.selection = selection;
      plan.settings.hogwild = true;
      plan.settings.n_threads = 4;
      plan.settings.isa = best_isa();
      const Progress progress = train(plan, planted.problem(), 1.0, 5);
      CHECK(progress.diverged_at == -1);
      CHECK(planted.loss() < 0.5 * start);
    }
  }
}

}  // namespace
}  // namespace manyclass::testing

int main() {
  manyclass::testing::racing_threads_learn_the_planted_classes();
  return manyclass::testing::report();
}
