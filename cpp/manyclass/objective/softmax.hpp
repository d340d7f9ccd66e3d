// The softmax loss log(1 + sum_S alpha e^d) and its gradient.
//
// With all classes this is the exact log-loss. With sampled ones it is complementary sum sampling (Botev,
// Zheng & Barber 2017): the positive is kept exactly, the rest is estimated inside the logarithm, with a bias
// O(1/m).
#pragma once

#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

struct Softmax {
  static constexpr Facts facts{
      .name = "css",
      .sentence = "The softmax with its sum over wrong classes sampled inside the logarithm.",
      .source = "Botev, Zheng & Barber 2017, complementary sum sampling",
      .biased = true,
      .flags = {flag::log_q},
  };

  Gradient gradient(const SampledPoint& point, double&, std::span<float> g) const {
    const SampledSum sum = sampled_sum(point, g);
    const double to_probability = std::exp(sum.shift - sum.log_a);
    const auto factor = static_cast<float>(to_probability);
    for (std::size_t k = 0; k < point.size(); ++k) g[k] *= factor;
    const double wrong = sum.scaled * to_probability;  // the probability of all wrong classes
    return {wrong, 0, sum.log_a, wrong};
  }
};

// The same where every class is selected: the exact log-loss.
struct ExactSoftmax : Softmax {
  static constexpr Facts facts{
      .name = "exact",
      .sentence = "The exact softmax gradient over all classes.",
      .flags = {flag::all_classes},
  };
};

}  // namespace manyclass
