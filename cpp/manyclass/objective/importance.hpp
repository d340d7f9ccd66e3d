// Importance sampling of the softmax gradient, self-normalised over the draws (Bengio & Senecal 2003).
//
// The gradient is -grad z_y + sum_j w_j grad z_j with w proportional to alpha e^z. The draws are from all classes, so
// the label must be able to be among them: it is the selection that sees to it. (With the label kept exactly outside
// of the draws it is complementary sum sampling: softmax.hpp.)
#pragma once

#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

struct Importance {
  static constexpr Facts facts{
      .name = "is",
      .sentence = "Importance sampling of the softmax gradient, normalised over the draws.",
      .source = "Bengio & Senecal, AISTATS 2003",
      .biased = true,
      .flags = {flag::draws_label},
  };

  Gradient gradient(const SampledPoint& point, double&, std::span<float> g) const {
    const double log_a = sampled_sum(point, g).log_a;
    // Against the largest of the draws: against the label's score all of them might vanish.
    const float top = max_of(point.scores, point.scores[0]);
    for (std::size_t k = 0; k < point.size(); ++k) g[k] = point.alpha[k] * vec::normal_exp(point.scores[k] - top);
    const auto scale = static_cast<float>(1 / sum_of(g));
    for (std::size_t k = 0; k < point.size(); ++k) g[k] *= scale;
    return {1, 0, log_a, 1};
  }
};

}  // namespace manyclass
