// Which rows of W a step touches: a run of neighbouring classes, several such runs, or a list.
#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ClassRange {
  Index begin = 0;
  Index count = 0;

  std::size_t size() const { return static_cast<std::size_t>(count); }
  Index operator[](std::size_t c) const { return begin + static_cast<Index>(c); }
  Index end() const { return begin + count; }
};

using ClassList = std::span<const Index>;

inline constexpr std::size_t line_floats = 16;  // floats in a cache line of 64 bytes

// Runs of one cache line of classes each, in ascending order. Run r is [begins[r], begins[r] + 16); the last one may be
// shorter.
struct ClassLines {
  std::span<const Index> begins;
  std::size_t count = 0;  // number of classes

  std::size_t size() const { return count; }
  Index operator[](std::size_t c) const { return begins[c / line_floats] + static_cast<Index>(c % line_floats); }
};

// Calls f(run, c) for every run of neighbours among the classes, where c is the run's first position in their order.
template <class F>
void for_runs(ClassRange classes, F&& f) {
  f(classes, std::size_t{0});
}

template <class F>
void for_runs(const ClassLines& classes, F&& f) {
  for (std::size_t c = 0; c < classes.size(); c += line_floats) {
    f(ClassRange{classes[c], static_cast<Index>(std::min(line_floats, classes.size() - c))}, c);
  }
}

template <class F>
void for_runs(ClassList classes, F&& f) {
  for (std::size_t c = 0; c < classes.size(); ++c) f(ClassRange{classes[c], 1}, c);
}

// Whether selections write their classes to a list.
template <class Classes>
inline constexpr bool lists = true;
template <>
inline constexpr bool lists<ClassRange> = false;

// Calls f with the classes of a list: as the run that they are, or as the list.
template <class F>
void with_run(ClassList classes, const F& f) {
  const auto is_next = [](Index a, Index b) { return b == a + 1; };
  if (!classes.empty() && std::adjacent_find(classes.begin(), classes.end(), std::not_fn(is_next)) == classes.end()) {
    f(ClassRange{classes.front(), static_cast<Index>(classes.size())});
  } else {
    f(classes);
  }
}

inline ClassRange intersect(ClassRange a, ClassRange b) {
  const Index begin = std::max(a.begin, b.begin);
  return {begin, std::max(std::min(a.end(), b.end()) - begin, 0)};
}

// Calls f(part, c) for every stretch of the classes, as long as there are, that lies in `mine`, whole cache lines of
// classes; c is its first position in their order.
template <class F>
void for_parts(ClassRange classes, ClassRange mine, F&& f) {
  const ClassRange part = intersect(classes, mine);
  if (part.count > 0) f(part, static_cast<std::size_t>(part.begin - classes.begin));
}

template <class F>
void for_parts(ClassList classes, ClassRange mine, F&& f) {
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::size_t first = c;
    while (c < classes.size() && classes[c] >= mine.begin && classes[c] < mine.end()) ++c;
    if (c > first) f(classes.subspan(first, c - first), first);
  }
}

template <class F>
void for_parts(const ClassLines& classes, ClassRange mine, F&& f) {
  for_parts(classes.begins, mine, [&](ClassList begins, std::size_t line) {
    const std::size_t c = line * line_floats;
    f(ClassLines{begins, std::min(begins.size() * line_floats, classes.size() - c)}, c);
  });
}

// The elements of a per-class array at some classes, in order. Those of a range are neighbours, so that loops over them
// are vectorised.
template <class T>
std::span<T> at_classes(std::span<T> values, ClassRange classes) {
  return values.subspan(static_cast<std::size_t>(classes.begin), classes.size());
}

template <class T, class Classes>
struct Gathered {
  T* values;
  Classes classes;
  T& operator[](std::size_t c) const { return values[classes[c]]; }
};

template <class T>
Gathered<T, const Index*> at_classes(std::span<T> values, ClassList classes) {
  return {values.data(), classes.data()};
}

template <class T>
Gathered<T, ClassLines> at_classes(std::span<T> values, const ClassLines& classes) {
  return {values.data(), classes};
}

}  // namespace manyclass
