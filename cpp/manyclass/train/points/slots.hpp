// Working memory for the points that are in flight: one slot a point.
#pragma once

#include <vector>

#include "manyclass/objective/point.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/feature_rows.hpp"

namespace manyclass {

template <class Classes>
class Slots {
 public:
  struct Slot {
    Index point;
    bool labelled;  // whether its label is among the classes
    bool moved;     // whether all of its rows have been moved
    bool diverged;  // whether its step was too large to take
    Index batch;    // points of its batch
    Classes classes;
    float label_score;  // z_y before the step
    Move move;
    Offset iteration;          // batches made before its own
    float label_shrink;        // the factor of w_y by the ridge
    std::span<float> scores;   // z_k before the step
    std::span<float> alpha;    // inclusion weights
    std::span<float> times;    // empty unless the selection repeats classes
    std::span<float> moves;    // p_k, then -p_k
    std::span<float> shrinks;  // factors of w_k by the ridge; empty without one
    std::span<float> x_sqs;    // see SampledPoint; empty without a ridge or steps by curvature
    std::span<Index> list;     // empty unless classes are a list
    double eta;                // the step size
    double x_sq;               // |x|^2 without the intercept, or what follows for it from curvatures
    // Of steps by curvature (curvature.hpp): the values of x that weights move along; the share of the prior's variance
    // that is left; n_classes over the rows so far; factors of classes, or what the visit then tells of them.
    std::span<float> x_moved;
    float rest;
    double per_curvature;
    std::span<float> factors;
    float label_factor;
    double label_curvature;

    DrawBuffers buffers() const { return {list, alpha, times}; }
  };

  Slots() = default;
  // Rows of x have up to `row` values that differ from those that weights move along; 0: none do.
  Slots(std::size_t n_slots, std::size_t capacity, bool lists, bool repeats, bool ridge, std::size_t row)
      // Whole cache lines, so that slots of different threads do not share one.
      : width_((capacity + line_floats - 1) / line_floats * line_floats), slots_(n_slots) {
    const std::size_t n_floats =
        3 + (repeats ? 1U : 0U) + (ridge ? 1U : 0U) + (ridge || row > 0 ? 1U : 0U) + (row > 0 ? 1U : 0U);
    floats_.resize(n_slots * (n_floats * width_ + row));
    indices_.resize(lists ? n_slots * width_ : 0);
    float* next = floats_.data();
    const auto take = [&](bool wanted, std::size_t n) {
      const std::span<float> taken(wanted ? next : nullptr, wanted ? n : 0);
      next += taken.size();
      return taken;
    };
    for (std::size_t s = 0; s < n_slots; ++s) {
      Slot& slot = slots_[s];
      slot.scores = take(true, width_);
      slot.alpha = take(true, width_);
      slot.moves = take(true, width_);
      slot.times = take(repeats, width_);
      slot.shrinks = take(ridge, width_);
      slot.x_sqs = take(ridge || row > 0, width_);
      slot.factors = take(row > 0, width_);
      slot.x_moved = take(row > 0, row);
      if (lists) slot.list = {indices_.data() + s * width_, width_};
    }
  }

  Slot& operator[](std::size_t s) { return slots_[s]; }

 private:
  std::size_t width_ = 0;
  std::vector<Slot> slots_;
  std::vector<float> floats_;
  std::vector<Index> indices_;
};

}  // namespace manyclass
