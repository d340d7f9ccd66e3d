// The ridge's share of a visit: every touched row of W shrinks by as much as keeps the expected gradient unbiased.
//
// The ridge multiplies w_k by s_k = 1 / (1 + eta alpha b_k), its own proximal step, where b_k = 1 / P(row k is touched
// by a visit), as the label or else by the selection (Fagan & Iyengar 2018, below eq. 6). An implicit step is told the
// scores and |x|^2 that this leaves, so that both are one proximal step; w_k then moves by s_k p_k x, which is what
// moving by p_k x and shrinking afterwards does.
#pragma once

#include <numeric>
#include <vector>

#include "manyclass/select/frequency.hpp"
#include "manyclass/step/point_step.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/train/points/slots.hpp"

namespace manyclass {

class Ridge {
 public:
  Ridge() = default;

  template <class Rows, class Select>
  Ridge(const Problem<Rows>& problem, const Select& select, double alpha)
      : alpha_(alpha), visit_weight_(static_cast<std::size_t>(problem.n_classes)) {
    const std::vector<double> count = counts_of(problem.counts, problem.labels, problem.n_classes);
    const double n = std::accumulate(count.begin(), count.end(), 0.0);
    const double elsewhere = problem.elsewhere ? problem.elsewhere->n_points : 0;
    for (std::size_t k = 0; k < count.size(); ++k) {
      const auto at = static_cast<Index>(k);
      double touched = count[k] + elsewhere * select.inclusion_of_all(at);
      if (n > count[k]) touched += (n - count[k]) * select.inclusion(at);
      visit_weight_[k] = static_cast<float>((n + elsewhere) / touched);
    }
  }

  // Sets the factors of a slot's rows, those behind the first n_shrink of its classes being 1. With `first` the point
  // becomes what the shrunk rows say of it.
  template <class Rows, class Slot>
  void shrink(const Problem<Rows>& problem, bool first, std::size_t n_shrink, Slot& slot, SampledPoint& point) const {
    const std::size_t size = slot.classes.size();
    const auto at = static_cast<std::size_t>(slot.point);
    const std::span<const float> b = problem.model.intercept;
    const auto x_sq = static_cast<float>(slot.x_sq);
    const float constant = b.empty() ? 0.0F : 1.0F;
    // With steps by curvature, which are then alike for all features, that of W is not that of the intercept.
    const bool by_curvature = !slot.factors.empty();
    const double of_w = by_curvature && problem.x_sq[at] > 0 ? slot.x_sq / static_cast<double>(problem.x_sq[at]) : 1;
    const auto rate = static_cast<float>(point.eta * of_w * alpha_);
    const Index y = problem.labels[at];
    for_runs(slot.classes, [&](ClassRange run, std::size_t c0) {
      const auto weight = at_classes(std::span<const float>(visit_weight_), run);
      const std::span<float> shrinks = slot.shrinks.subspan(c0, run.size());
      for (std::size_t c = 0; c < run.size(); ++c) shrinks[c] = 1 / (1 + rate * weight[c]);
      if (y >= run.begin && y < run.end()) shrinks[static_cast<std::size_t>(y - run.begin)] = 1;
    });
    if (by_curvature) {
      for (std::size_t c = 0; c < size; ++c) slot.shrinks[c] = 1 / (1 + (1 / slot.shrinks[c] - 1) * slot.factors[c]);
    }
    for (std::size_t c = n_shrink; c < size; ++c) slot.shrinks[c] = 1;
    for (std::size_t c = 0; c < size; ++c) slot.x_sqs[c] = slot.shrinks[c] * x_sq + constant;
    slot.label_shrink = 1;
    if (slot.labelled) {
      const float weight = visit_weight_[static_cast<std::size_t>(y)];
      slot.label_shrink = 1 / (1 + rate * (by_curvature ? slot.label_factor * weight : weight));
    }
    if (!first) return;

    auto z_y = static_cast<float>(point.label_score);
    if (b.empty()) {
      for (std::size_t c = 0; c < size; ++c) slot.scores[c] *= slot.shrinks[c];
      z_y *= slot.label_shrink;
    } else {
      for_runs(slot.classes, [&](ClassRange run, std::size_t c0) {
        const auto of_run = at_classes(b, run);
        const auto scores = slot.scores.subspan(c0, run.size());
        for (std::size_t c = 0; c < run.size(); ++c) {
          scores[c] = of_run[c] + slot.shrinks[c0 + c] * (scores[c] - of_run[c]);
        }
      });
      const float b_y = slot.labelled ? b[static_cast<std::size_t>(y)] : 0;
      z_y = b_y + slot.label_shrink * (z_y - b_y);
    }
    point.label_score = static_cast<double>(z_y);
    point.x_sq = static_cast<double>(slot.label_shrink) * static_cast<double>(x_sq) + static_cast<double>(constant);
    if (by_curvature) {
      for (std::size_t c = 0; c < size; ++c) slot.x_sqs[c] *= slot.factors[c];
      point.x_sq *= static_cast<double>(slot.label_factor);
    }
    point.x_sqs = slot.x_sqs.first(size);
  }

 private:
  double alpha_ = 0;
  std::vector<float> visit_weight_;  // b_k
};

}  // namespace manyclass
