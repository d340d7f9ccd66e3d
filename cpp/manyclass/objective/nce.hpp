// Telling the label from m noise classes: noise-contrastive estimation and negative sampling.
#pragma once

#include "manyclass/objective/sampled_sum.hpp"

namespace manyclass {

// -log sigma(z_y - log(m q_y)) - sum_j log(1 - sigma(z_j - log(m q_j))), the normaliser fixed at 1 (Mnih & Teh 2012).
// 1 / (m q) is what the inclusion weight of a draw is. Noise does not know the label, which is drawn as often as any
// class of its q: without it scores would learn the odds of a class and not its probability.
struct NoiseContrastive {
  static constexpr Facts facts{
      .name = "nce",
      .sentence =
          "Noise-contrastive estimation, which tells the label from drawn noise with the normaliser fixed at 1.",
      .source = "Mnih & Teh, ICML 2012",
      .biased = true,
      .flags = {flag::draws_label},
  };

  Gradient gradient(const SampledPoint& point, double&, std::span<float> g) const {
    const double log_a = sampled_sum(point, g).log_a;
    point.write_counts(g);
    for (std::size_t k = 0; k < point.size(); ++k) {
      g[k] *= sigmoid(point.scores[k] + vec::log(point.alpha[k] / g[k]));
    }
    const auto label = static_cast<float>(point.label_score) + vec::log(point.label_alpha);
    return {static_cast<double>(sigmoid(-label)), 0, log_a, sum_of(g)};
  }
};

// -log sigma(z_y) - sum_j log sigma(-z_j) (Mikolov et al. 2013), a draw that is the label left out, as in their
// word2vec. Not a likelihood: at its optimum z_k is the log-odds of k against m draws of noise, so the softmax of z is
// off by the noise distribution.
struct NegativeSampling {
  static constexpr Facts facts{
      .name = "negative_sampling",
      .sentence = "Negative sampling, whose scores are log-odds against noise and no log-probabilities.",
      .source = "Mikolov et al., NIPS 2013, eq. 4",
      .biased = true,
  };

  Gradient gradient(const SampledPoint& point, double&, std::span<float> g) const {
    const double log_a = sampled_sum(point, g).log_a;
    point.write_counts(g);
    for (std::size_t k = 0; k < point.size(); ++k) {
      const float counted = g[k] * sigmoid(point.scores[k]);
      g[k] = point.alpha[k] > 0 ? counted : 0.0F;
    }
    return {static_cast<double>(sigmoid(-static_cast<float>(point.label_score))), 0, log_a, sum_of(g)};
  }
};

}  // namespace manyclass
