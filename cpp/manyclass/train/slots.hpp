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
    std::span<float> x_sqs;    // see SampledPoint; empty without a ridge
    std::span<Index> list;     // empty unless classes are a list

    DrawBuffers buffers() const { return {list, alpha, times}; }
  };

  Slots() = default;
  Slots(std::size_t n_slots, std::size_t capacity, bool lists, bool repeats, bool ridge)
      // Whole cache lines, so that slots of different threads do not share one.
      : width_((capacity + line_floats - 1) / line_floats * line_floats), slots_(n_slots) {
    const std::size_t n_floats = 3 + (repeats ? 1U : 0U) + (ridge ? 2U : 0U);
    floats_.resize(n_slots * n_floats * width_);
    indices_.resize(lists ? n_slots * width_ : 0);
    float* next = floats_.data();
    const auto take = [&](bool wanted) {
      const std::span<float> row(wanted ? next : nullptr, wanted ? width_ : 0);
      next += row.size();
      return row;
    };
    for (std::size_t s = 0; s < n_slots; ++s) {
      Slot& slot = slots_[s];
      slot.scores = take(true);
      slot.alpha = take(true);
      slot.moves = take(true);
      slot.times = take(repeats);
      slot.shrinks = take(ridge);
      slot.x_sqs = take(ridge);
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
