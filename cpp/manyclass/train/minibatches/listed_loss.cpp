// See listed_loss.hpp.
#include "manyclass/train/minibatches/listed_loss.hpp"

#include <algorithm>
#include <variant>

#include "manyclass/math/sums.hpp"
#include "manyclass/train/common/trainer.hpp"

namespace manyclass {

LabelLoss loss_of_step(const SourceSettings& settings, double eta, const LabelPoint& point) {
  const auto* margin = std::get_if<SmoothedMargin>(&settings.loss);
  if (!settings.implicit || margin == nullptr) return settings.loss;
  return implicit_margin(margin->smoothing, eta * point.weight, point.phi_sq);
}

double step_gradient(const SourceSettings& settings, const LabelPoint& point, double eta, std::span<const float> z,
                     std::span<const float> alpha, std::span<const float> labels, LabelGradient& g) {
  double mean = 0;
  for (const float score : labels) mean += static_cast<double>(score);
  mean /= static_cast<double>(labels.size());
  // As in loss_of_step, a weight lengthens a proximal step.
  const SampledPoint seen{z, alpha, mean, point.phi_sq, eta * point.weight, eta * settings.local_step, point.visits};
  return settings.step->solve(settings.isa, seen, labels, *point.local, g);
}

void score_listed(const SourceSettings& settings, const LabelPoint& point, ListedScores& listed) {
  listed.positives.resize(point.labels.size());
  listed.negatives.resize(listed.wrong.size());
  run_with(settings.isa, [&](Isa isa) {
    settings.classes.scores(point.labels, point, isa, listed.positives);
    settings.classes.scores(listed.wrong, point, isa, listed.negatives);
  });
}

void listed_gradient(const SourceSettings& settings, const LabelPoint& point, double eta, ListedScores& listed,
                     std::span<const float> alpha, ClassGradient& out) {
  out.clear();
  run_with(settings.isa,
           [&] { out.largest_score = std::max(largest_of(listed.positives), largest_of(listed.negatives)); });
  if (!(out.largest_score <= static_cast<float>(runaway))) return;
  listed.negative_g.resize(listed.negatives.size());
  listed.positive_g.resize(listed.positives.size());
  LabelGradient gradient{listed.positive_g, listed.negative_g};
  if (settings.step != nullptr) {
    out.loss = step_gradient(settings, point, eta, listed.negatives, alpha, listed.positives, gradient);
  } else {
    const LabelScores scores{listed.positives, listed.negatives};
    out.loss = value_of(loss_of_step(settings, eta, point), scores, gradient, listed.memory, settings.isa);
  }
  const auto add = [&](std::span<const Index> ids, std::span<const float> g) {
    for (std::size_t c = 0; c < ids.size(); ++c) {
      if (g[c] == 0) continue;
      out.ids.push_back(ids[c]);
      out.g.push_back(g[c]);
    }
  };
  add(point.labels, listed.positive_g);
  add(listed.wrong, listed.negative_g);
}

}  // namespace manyclass
