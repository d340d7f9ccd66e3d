// One-vs-each: sum_{k != y} log(1 + e^{d_k}), an upper bound of the log-loss (Titsias 2016, eq. 15-16).
#pragma once

#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

struct OneVsEach {
  static constexpr Facts facts{
      .name = "ove",
      .sentence = "One-vs-each, a bound of the log-loss that is a sum over pairs of classes.",
      .source = "Titsias, NIPS 2016, eq. 15-16",
      .biased = true,
  };

  Gradient gradient(const SampledPoint& point, double&, std::span<float> g) const {
    const double log_a = sampled_sum(point, g).log_a;
    const auto z_y = static_cast<float>(point.label_score);
    for (std::size_t k = 0; k < point.size(); ++k) g[k] = point.alpha[k] * sigmoid(point.scores[k] - z_y);
    const double wrong = sum_of(g);
    return {wrong, 0, log_a, wrong};
  }
};

}  // namespace manyclass
