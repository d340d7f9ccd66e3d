// The double sum with e^t replaced by log(1 + rho e^t) / rho: weights of at most 1 / rho, a bias O(rho)
// (Gladin et al. 2025). rho -> 0 is the double sum.
#pragma once

#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

// f = u + h(-u) + sum_S alpha h(d - u), h(t) = log(1 + rho e^t) / rho, h'(t) = 1 / (rho + e^-t).
struct Softplus {
  static constexpr Facts facts{
      .name = "softplus",
      .sentence = "The double sum with exponentials replaced by log(1 + rho e^t) / rho.",
      .source = "Gladin et al. 2025",
      .biased = true,
      .flags = {flag::u, flag::u_step},
      .parameters = {{"rho", 0.5, 0, unbounded, true, "Largest weight of a class is 1 / rho; the bias is O(rho)."}},
  };
  double rho;

  Gradient gradient(const SampledPoint& point, double& u, std::span<float> g) const {
    const double log_a = sampled_sum(point, g).log_a;
    const auto base = static_cast<float>(point.label_score + u);
    const auto floor = static_cast<float>(rho);
    for (std::size_t k = 0; k < point.size(); ++k) {
      g[k] = point.alpha[k] / (floor + vec::exp(base - point.scores[k]));
    }
    const double wrong = sum_of(g);
    return {wrong, 1 - 1 / (rho + std::exp(u)) - wrong, log_a, wrong};
  }
};

}  // namespace manyclass
