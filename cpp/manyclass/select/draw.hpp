// The contract of a selection: which classes a visit sees beside its labels, and with what weights.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

#include "manyclass/core/facts.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/core/types.hpp"

namespace manyclass {

// What a selection writes for one visit, beside the classes themselves.
struct DrawBuffers {
  std::span<Index> list;   // room for the classes of a list
  std::span<float> alpha;  // inclusion weights
  std::span<float> times;  // how often a class was drawn (selections with replacement only)
};

// What selections are made from; each takes what it needs.
struct SelectArguments {
  Index n_classes;
  Index n_negatives;              // classes asked for, >= 1
  std::span<const Index> labels;  // of all points: what the frequency of a class is counted from, but for `counts`
  bool with_label = false;        // the label is drawn like any other class
  Options options{};
  std::span<const Index> heads{};  // n_points x head_size
  Index head_size = 0;
  std::span<const double> counts{};  // of each class, where points were seen before these; or empty

  Index at_most(Index limit) const { return std::min(n_negatives, limit); }
};

// A selection has facts, and
//
//   static T make(const SelectArguments&)      the selection that these arguments ask for;
//   Classes draw(rng, point, labels, buffers)  the classes of a visit, at most capacity() of them, all distinct, and
//                                              their alpha in `buffers`. `labels` are the point's, sorted;
//   using Classes = ...                        a run, a list or lines of neighbours: see weights/class_range.hpp;
//   static constexpr bool repeats              whether a class may be drawn more than once and counts are written;
//   bool with_label                            whether the sum below is over all classes, labels included;
//   float label_alpha(k)                       the alpha of label k, were it a wrong class that is drawn;
//   double inclusion(k)                        probability that a visit draws k as a wrong class;
//   std::size_t n_random(classes)              how many of the classes, the first ones, are drawn and not certain.
//
// In the mean over draws, sum alpha_k g_k is the sum of g over all classes that are no labels, for any g. A label that
// is drawn with the others has alpha 0. Draws depend on rng and on the selection alone, so that threads may share it.
template <class T>
concept Selection = requires(const T select, const SelectArguments& arguments, Rng rng, Index k,
                             std::span<const Index> labels, const DrawBuffers& out, typename T::Classes classes) {
  { T::make(arguments) } -> std::same_as<T>;
  { T::facts } -> std::convertible_to<Facts>;
  { T::repeats } -> std::convertible_to<bool>;
  { select.with_label } -> std::convertible_to<bool>;
  { select.capacity() } -> std::same_as<std::size_t>;
  { select.draw(rng, k, labels, out) } -> std::same_as<typename T::Classes>;
  { select.label_alpha(k) } -> std::same_as<float>;
  { select.inclusion(k) } -> std::same_as<double>;
  { select.n_random(classes) } -> std::same_as<std::size_t>;
};

// Sets the weights of labels that are among the run of classes to 0.
inline void leave_out(std::span<const Index> labels, Index begin, std::span<float> alpha) {
  for (const Index y : labels) {
    if (y >= begin && static_cast<std::size_t>(y - begin) < alpha.size())
      alpha[static_cast<std::size_t>(y - begin)] = 0;
  }
}

// std::lower_bound of sorted numbers without a branch: which half a draw is in, no processor can predict.
inline Index* first_not_below(Index* begin, const Index* end, Index k) {
  std::size_t size = static_cast<std::size_t>(end - begin);
  while (size > 1) {
    const std::size_t half = size / 2;
    begin += begin[half - 1] < k ? half : 0;
    size -= half;
  }
  return begin + (size == 1 && *begin < k ? 1 : 0);
}

// m distinct numbers below n, every set of them equally likely (Floyd; Bentley & Floyd, CACM 1987). `taken(k)` says
// whether k was taken before, and `take(k)` takes it; what is taken after a hit is larger than all before.
template <class Taken, class Take>
void draw_distinct(Rng& rng, Index n, Index m, const Taken& taken, const Take& take) {
  for (Index j = n - m; j < n; ++j) {
    const auto k = static_cast<Index>(rng.below(static_cast<std::uint32_t>(j) + 1));
    take(taken(k) ? j : k);
  }
}

}  // namespace manyclass
