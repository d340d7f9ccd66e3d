// The adaptive step of a visit to a point (Ruiz et al. 2018, section 4): its rate, and moves by a point or by a batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "manyclass/train/common/trainer.hpp"
#include "manyclass/weights/adapt.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

// Of a problem that has an `adaptive`. `slot` is a visit's, see slots.hpp.
template <class Rows>
class AdaptiveSteps {
 public:
  AdaptiveSteps(const Problem<Rows>& problem, const Settings& settings)
      : model_(problem.model),
        adaptive_(problem.adaptive.value()),
        settings_(settings),
        n_points_(problem.labels.size()) {}

  // Batches made before this pass.
  Offset first_iteration(const Stretch& stretch) const {
    const auto n = static_cast<Offset>(n_points_);
    return stretch.pass * ((n + settings_.batch - 1) / settings_.batch);
  }

  // The rule takes gradients of the summed loss, N / B times the sum over a batch: `moves` are eta times those of one
  // point's share of the mean, or of its share of the batch's.
  template <class Slot, class Row, class Some>
  void move(const Slot& slot, Row x, const Some& classes, std::span<float> moves, const Stretch& stretch, Isa isa) {
    const double to_sum = static_cast<double>(n_points_) / (stretch.eta * (settings_.mean_of_batch ? 1 : slot.batch));
    constexpr double most = std::numeric_limits<float>::max();
    const float rate = this->rate(slot, stretch);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      moves[c] = static_cast<float>(std::clamp(static_cast<double>(moves[c]) * to_sum, -most, most));
      if (model_.intercept.empty() || moves[c] == 0) continue;
      const auto k = static_cast<std::size_t>(classes[c]);
      if (adaptive_.gradients) {
        adaptive_.intercept_gradients[k] += moves[c];
      } else {
        adapt(model_.intercept[k], adaptive_.intercept_squares[k], moves[c], rate);
      }
    }
    if (adaptive_.gradients) {
      adaptive_.gradients->add(x, classes, moves.first(classes.size()), isa);
    } else {
      model_.rows.add_adaptive(x, classes, moves.first(classes.size()), rate, adaptive_.squares);
    }
  }

  // An adaptive step is one for all of a row's gradient: a label that was drawn, too, takes its own move along.
  template <class Slot>
  static void join_label(Slot& slot, Index label) {
    for (std::size_t c = 0; c < slot.classes.size(); ++c) {
      if (slot.classes[c] != label) continue;
      slot.moves[c] += static_cast<float>(std::exchange(slot.move.label, 0.0));
      return;
    }
  }

  // Moves what a slot has touched of the classes `part` by the batch's gradient, which is then 0 there.
  template <class Slot, class Row>
  void descend(const Slot& slot, Row x, ClassRange part, const Stretch& stretch) {
    const float rate = this->rate(slot, stretch);
    if (!model_.intercept.empty()) {
      for (auto k = static_cast<std::size_t>(part.begin); k < static_cast<std::size_t>(part.end()); ++k) {
        const float gradient = std::exchange(adaptive_.intercept_gradients[k], 0.0F);
        adapt(model_.intercept[k], adaptive_.intercept_squares[k], gradient, rate);
      }
    }
    model_.rows.descend_adaptive(x, part, rate, adaptive_.squares, *adaptive_.gradients);
  }

 private:
  // Steps of the adaptive rule, which has moved a weight by up to three times as much: far beyond any score, and far
  // from the end of single precision.
  static constexpr double most_adaptive = 0x1p80;

  // The rate of an iteration: it falls as 1 / sqrt(iterations made), and by the factor `decay` now and then.
  template <class Slot>
  float rate(const Slot& slot, const Stretch& stretch) const {
    double rate = stretch.eta / std::sqrt(1.0 + static_cast<double>(slot.iteration));
    if (settings_.decay_every > 0) {
      const Offset falls = slot.iteration / settings_.decay_every - first_iteration(stretch) / settings_.decay_every;
      rate *= std::pow(settings_.decay, static_cast<double>(falls));
    }
    return static_cast<float>(std::fmin(rate, most_adaptive));
  }

  Linear<Rows> model_;  // views, as the next
  Adaptive<Rows> adaptive_;
  const Settings& settings_;
  std::size_t n_points_;
};

}  // namespace manyclass
