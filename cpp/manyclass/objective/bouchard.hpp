// Bouchard's bound: log sum_k e^{z_k} <= a + sum_k log(1 + e^{z_k - a}), with its parameter a solved for each point
// (Titsias 2016, eq. 11; the best a is the root of sum_k sigma(z_k - a) = 1).
//
// With all classes the bound is exactly minimised over a; with sampled ones a is the minimiser of the sampled bound,
// which biases the gradient by O(1/m). The carried value is the last a, where the search starts.
#pragma once

#include "manyclass/math/root.hpp"
#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

struct Bouchard {
  static constexpr Facts facts{
      .name = "bouchard",
      .sentence = "Bouchard's bound of the log-loss, with its parameter solved for each point.",
      .source = "Titsias, NIPS 2016, eq. 11",
      .biased = true,
      .flags = {flag::u},
  };

  Gradient gradient(const SampledPoint& point, double& a, std::span<float> g) const {
    const double log_a = sampled_sum(point, g).log_a;
    const double z_y = point.label_score;
    double right = 0, wrong = 0;
    const auto excess = [&](double at) -> Probe {
      a = at;
      const auto shift = static_cast<float>(at);
      double slope = 0;
      for (std::size_t k = 0; k < point.size(); ++k) g[k] = sigmoid(point.scores[k] - shift);
      for (std::size_t k = 0; k < point.size(); ++k) {
        slope += static_cast<double>(point.alpha[k] * g[k] * (1 - g[k]));
        g[k] *= point.alpha[k];
      }
      wrong = sum_of(g);
      right = 1 / (1 + std::exp(at - z_y));
      return {1 - right - wrong, slope + right * (1 - right)};
    };
    // 1 - sum sigma(z - a) increases in a. sigma(t) <= e^t puts the root at or below the log of the sampled normaliser;
    // at z_y - 40 the label's own sigma is 1 in double, so nothing is left for the others.
    const double dq = find_root(RootFinder::newton, {z_y - 40, log_a + z_y}, a, close_enough, excess);
    a += dq;
    return {1 - right, 0, log_a, wrong};
  }

 private:
  static constexpr double close_enough = 1e-6;  // the bound is flat at its minimum: off by 1e-13
};

}  // namespace manyclass
