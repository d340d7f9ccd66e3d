// The logistic loss of each class on its own, sum_{l in P} log(1 + e^{-z_l}) + sum_{k not in P} log(1 + e^{z_k}): one
// binary logistic regression a class ("one versus all"). Its gradient is F(z_k), less 1 at a label.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "manyclass/math/logistic.hpp"
#include "manyclass/math/sums.hpp"
#include "manyclass/objective/point.hpp"

namespace manyclass {

struct LogisticOfEach {
  static constexpr Facts facts{
      .name = "logistic",
      .sentence = "The logistic loss of every class on its own, summed over all classes.",
  };

  double operator()(const LabelScores& z, LabelGradient& g, LossMemory& memory) const {
    double loss = 0;
    for (std::size_t l = 0; l < z.positives.size(); ++l) {
      const auto score = static_cast<double>(z.positives[l]);
      loss += softplus(-score);
      g.positives[l] = static_cast<float>(-log_expit_derivative(score));
    }
    std::vector<float>& losses = memory.floats;
    losses.resize(z.negatives.size());
    for (std::size_t j = 0; j < z.negatives.size(); ++j) {
      losses[j] = -vec::log_expit(-z.negatives[j]);
      g.negatives[j] = vec::log_expit_derivative(-z.negatives[j]);
    }
    g.rest = 0;
    if (z.rest > 0) {
      const auto score = static_cast<double>(z.rest_score);
      g.rest = log_expit_derivative(-score);
      loss += z.rest * softplus(score);
    }
    return loss + sum_of(losses);
  }

  // Never: each class has a part, however small.
  bool top_is_enough(const LabelGradient&) const { return false; }
};

static_assert(LossOfLabels<LogisticOfEach>, "see objective/point.hpp");

}  // namespace manyclass
