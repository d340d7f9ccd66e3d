// Working memory for the points that are in flight: one slot a point.
#pragma once

#include <vector>

#include "manyclass/weights/feature_rows.hpp"

namespace manyclass {

template <class Classes>
class Slots {
 public:
  Slots(std::size_t n_slots, std::size_t capacity, bool lists)
      : width_((capacity + line_floats - 1) / line_floats * line_floats),
        points(n_slots),
        classes(n_slots),
        moves(n_slots),
        alphas_(n_slots * width_),
        rows_(n_slots * width_),
        lists_(lists ? n_slots * width_ : 0) {}

  std::span<float> alpha(std::size_t s) { return {alphas_.data() + s * width_, width_}; }
  std::span<float> p(std::size_t s) { return {rows_.data() + s * width_, width_}; }
  std::span<Index> list(std::size_t s) {
    return lists_.empty() ? std::span<Index>{} : std::span<Index>{lists_.data() + s * width_, width_};
  }

 private:
  std::size_t width_;  // whole cache lines, so that slots of different threads do not share one

 public:
  std::vector<Index> points;
  std::vector<Classes> classes;
  std::vector<Move> moves;

 private:
  std::vector<float> alphas_;
  std::vector<float> rows_;
  std::vector<Index> lists_;
};

}  // namespace manyclass
