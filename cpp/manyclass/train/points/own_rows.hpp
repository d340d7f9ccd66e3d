// Rows of W that one visit of a batch touches and no other does.
//
// Such a row may be moved as soon as its visit's step is known, while it is in the second-level cache: a batch of 64
// visits to 17 rows of 4 KB each has more than fit. It has the same bits as after all visits of the batch were scored,
// since none of the others reads or moves it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/weights/class_range.hpp"

namespace manyclass {

class OwnRows {
 public:
  OwnRows() = default;
  explicit OwnRows(Index n_classes) : visits_(static_cast<std::size_t>(n_classes)) {}

  bool empty() const { return visits_.empty(); }

  // Counts a visit to the classes, and to the label if it is at least 0.
  void note(ClassList classes, Index label) {
    for (const Index k : classes) note(k);
    if (label >= 0) note(label);
  }
  // A class that is not forgotten (where a batch was broken off) counts as shared later, which costs time only.
  void forget(ClassList classes, Index label) {
    for (const Index k : classes) at(k) = 0;
    if (label >= 0) at(label) = 0;
  }

  // Moves, and then shrinks, those rows of a slot that are its own and among `mine`; the slot then asks nothing more of
  // them. Returns whether it has others there.
  template <class Model, class Row, class Slot>
  bool move(Model& model, Row x, Slot& slot, Index label, ClassRange mine, Isa isa) const {
    bool others = false;
    const auto move_one = [&](Index k, float rise, float* shrink) {
      if (k < mine.begin || k >= mine.end()) return false;
      if (visits_[static_cast<std::size_t>(k)] != 1) {
        others = true;
        return false;
      }
      model.add(x, ClassRange{k, 1}, std::span<float>(&rise, 1), isa);
      if (shrink != nullptr) {
        model.shrink(ClassRange{k, 1}, std::span<const float>(shrink, 1));
        *shrink = 1;
      }
      return true;
    };
    const bool shrinks = !slot.shrinks.empty();
    for (std::size_t c = 0; c < slot.classes.size(); ++c) {
      if (move_one(slot.classes[c], slot.moves[c], shrinks ? &slot.shrinks[c] : nullptr)) slot.moves[c] = 0;
    }
    if (label >= 0 && move_one(label, static_cast<float>(slot.move.label), shrinks ? &slot.label_shrink : nullptr)) {
      slot.move.label = 0;
    }
    return others;
  }

 private:
  std::uint8_t& at(Index k) { return visits_[static_cast<std::size_t>(k)]; }
  void note(Index k) { at(k) = static_cast<std::uint8_t>(std::min(at(k) + 1, 2)); }

  std::vector<std::uint8_t> visits_;  // of each class: none, one, or more
};

}  // namespace manyclass
