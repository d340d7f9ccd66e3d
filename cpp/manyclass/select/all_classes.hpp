// Every class: the sum over wrong classes itself, no sampling.
#pragma once

#include <algorithm>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct AllClasses {
  static constexpr Facts facts{
      .name = "all",
      .sentence = "Every class.",
      .flags = {flag::label, flag::all_classes},
  };
  using Classes = ClassRange;
  static constexpr bool repeats = false;

  Index n_classes;
  bool with_label = false;  // the label counts among the classes, as importance sampling needs it

  static AllClasses make(const SelectArguments& a) { return {a.n_classes, a.with_label}; }

  std::size_t capacity() const { return static_cast<std::size_t>(n_classes); }
  float label_alpha(Index) const { return 1; }
  double inclusion(Index) const { return 1; }  // probability that a wrong class is selected

  std::size_t n_random(ClassRange classes) const { return classes.size(); }

  ClassRange draw(Rng, Index, std::span<const Index> labels, const DrawBuffers& out) const {
    std::fill_n(out.alpha.data(), capacity(), 1.0F);
    if (!with_label) leave_out(labels, 0, out.alpha.first(capacity()));
    return {0, n_classes};
  }
};

static_assert(Selection<AllClasses>, "see select/draw.hpp");

}  // namespace manyclass
