// How far the steps of a training go together.
#pragma once

#include <algorithm>

#include "manyclass/step/schedule.hpp"

namespace manyclass {

// The sum of the step sizes of all passes, that of the first being 1. Of 1,000 passes each is summed; what millions of
// more passes add to it is found by the means of stretches, to a part in 500.
inline double sum_of_steps(Schedule schedule, double decay, int n_passes) {
  constexpr int summed = 1000, stretch = 10;
  double total = 0;
  int first = std::min(summed, n_passes);
  for (int pass = 0; pass < first; ++pass) total += step_size(schedule, 1, decay, pass);
  while (first < n_passes) {
    const int last = std::min(first + std::min(first / stretch, n_passes - first), n_passes);
    total += (last - first) * (step_size(schedule, 1, decay, first) + step_size(schedule, 1, decay, last - 1)) / 2;
    first = last;
  }
  return total;
}

}  // namespace manyclass
