// The triplet loss, sum_{k in P, j in N} [1 + z_j - z_k]_+ (Yen et al., ICML 2018, eq. 7, with the signs that make it a
// loss): each pair of a label and a wrong class that comes within 1 of it counts.
//
// The labels that class j is too close to are the first c_j of them in order of score. So with the labels sorted, c_j
// is found by halving, and the number n_k of wrong classes too close to a label is a tail of the histogram of c:
// O(|P| log |P| + |N| log |P|) for the gradient, c_j and -n_k, and for the value, sum_j c_j (1 + z_j) - sum_k n_k z_k.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/objective/point.hpp"

namespace manyclass {

struct Triplet {
  static constexpr Facts facts{
      .name = "triplet",
      .sentence = "The sum of all violations of the margin between a label and a wrong class.",
      .source = "Yen et al., ICML 2018, eq. 7",
  };

  double operator()(const LabelScores& z, LabelGradient& g, LossMemory& memory) const {
    std::vector<float>& labels = memory.floats;
    labels.assign(z.positives.begin(), z.positives.end());
    std::sort(labels.begin(), labels.end());
    std::vector<double>& tails =
        memory.doubles;  // how many wrong classes are too close to exactly c labels, then to >c
    tails.assign(labels.size() + 1, 0.0);
    const auto lowest = static_cast<double>(labels.front());

    // Scores are counted from the lowest label's, so that a common offset of all takes no digits away.
    double value = 0;
    const auto too_close = [&](float score) {
      const double reach = (static_cast<double>(score) - lowest) + 1;
      if (!(reach > 0)) return std::size_t{0};
      const auto end = std::partition_point(labels.begin(), labels.end(),
                                            [&](float label) { return static_cast<double>(label) - lowest < reach; });
      return static_cast<std::size_t>(end - labels.begin());
    };
    const auto add = [&](float score, double classes) {
      const std::size_t c = too_close(score);
      if (c == 0) return 0.0;
      const auto pairs = static_cast<double>(c);
      tails[c] += classes;
      value += classes * pairs * ((static_cast<double>(score) - lowest) + 1);
      return pairs;
    };
    for (std::size_t j = 0; j < z.negatives.size(); ++j) g.negatives[j] = static_cast<float>(add(z.negatives[j], 1));
    g.rest = z.rest > 0 ? add(z.rest_score, z.rest) : 0.0;

    for (std::size_t c = labels.size(); c-- > 0;) tails[c] += tails[c + 1];
    for (std::size_t r = 0; r < labels.size(); ++r) value -= tails[r + 1] * (static_cast<double>(labels[r]) - lowest);
    for (std::size_t k = 0; k < z.positives.size(); ++k) {
      const auto rank = std::lower_bound(labels.begin(), labels.end(), z.positives[k]) - labels.begin();
      g.positives[k] = static_cast<float>(0 - tails[static_cast<std::size_t>(rank) + 1]);
    }
    return value;
  }

  // Whether a gradient of the highest wrong classes only, with no rest, is that of all: a lower score than one that is
  // far enough from every label is so too.
  bool top_is_enough(const LabelGradient& g) const {
    return std::find(g.negatives.begin(), g.negatives.end(), 0.0F) != g.negatives.end();
  }
};

static_assert(LossOfLabels<Triplet>, "see objective/point.hpp");

}  // namespace manyclass
