// The variances of a Gaussian posterior (gaussian_posterior.hpp) between passes.
#pragma once

#include <cstddef>
#include <span>

namespace manyclass {

// What a pass has collected and what follows from it, stored as the means are: rows whose first n_used numbers are
// weights.
struct PosteriorSpread {
  std::span<const float> means;
  std::span<float> collected;   // 0 in the end
  std::span<float> precisions;  // without the prior's
  std::span<float> variances;
  std::size_t width = 1, n_used = 1;
  double prior = 1;        // N alpha
  double mean_weight = 1;  // observations that a point counts as
  double most = 1;         // larger precisions count as that
  int n_pass = 0;          // 0, 1, ...
};

// Ends pass t: precisions go the share (1 + t)^-0.9 of the way to those of the pass. Returns KL(q || prior).
double end_posterior_pass(const PosteriorSpread& spread);

}  // namespace manyclass
