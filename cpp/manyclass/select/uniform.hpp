// m distinct wrong classes, every subset equally likely.
#pragma once

#include <algorithm>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct Uniform {
  static constexpr Facts facts{
      .name = "uniform",
      .sentence = "Distinct wrong classes, every set of them equally likely.",
      .flags = {flag::label},
  };
  using Classes = ClassList;
  static constexpr bool repeats = false;

  Index n_classes;
  Index size;  // m, in [1, K]; a point with few wrong classes sees them all
  bool with_label = false;

  static Uniform make(const SelectArguments& a) {
    return {a.n_classes, a.at_most(a.with_label ? a.n_classes : std::max(1, a.n_classes - 1)), a.with_label};
  }

  Index n_candidates(std::size_t n_labels = 1) const {
    return with_label ? n_classes : n_classes - static_cast<Index>(n_labels);
  }
  std::size_t capacity() const { return static_cast<std::size_t>(size); }
  float label_alpha(Index) const { return static_cast<float>(n_candidates()) / static_cast<float>(size); }
  double inclusion(Index) const { return static_cast<double>(size) / n_candidates(); }
  double inclusion_of_all(Index) const { return static_cast<double>(size) / n_classes; }  // where no class is a label

  std::size_t n_random(ClassList classes) const { return classes.size(); }

  // The draws are kept sorted, so that "is it there?" is a binary search: O(m log m) comparisons and, for the
  // insertions, m^2/4 moves of neighbouring words.
  ClassList draw(Rng rng, Index, std::span<const Index> labels, const DrawBuffers& out) const {
    Index* const begin = out.list.data();
    Index* end = begin;
    Index* at = begin;
    const Index n = n_candidates(labels.size()), m = std::min(size, n);
    draw_distinct(
        rng, n, m,
        [&](Index k) {
          at = first_not_below(begin, end, k);
          const bool there = at != end && *at == k;
          if (there) at = end;
          return there;
        },
        [&](Index k) {
          std::move_backward(at, end, end + 1);
          *at = k;
          ++end;
        });
    if (!with_label) {
      for (const Index y : labels) {
        for (Index* k = first_not_below(begin, end, y); k != end; ++k) ++*k;  // skip the label
      }
    }
    const auto count = static_cast<std::size_t>(m);
    std::fill_n(out.alpha.data(), count, static_cast<float>(n) / static_cast<float>(m));
    return {begin, count};
  }
};

static_assert(Selection<Uniform>, "see select/draw.hpp");

}  // namespace manyclass
