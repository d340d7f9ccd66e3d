// Which rows of W a step touches: a run of neighbouring classes, or a list.
#pragma once

#include <algorithm>
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

inline ClassRange intersect(ClassRange a, ClassRange b) {
  const Index begin = std::max(a.begin, b.begin);
  return {begin, std::max(std::min(a.end(), b.end()) - begin, 0)};
}

// The elements of a per-class array at some classes, in order: neighbours for a range, so that loops over them are
// vectorised.
template <class T>
std::span<T> at_classes(std::span<T> values, ClassRange classes) {
  return values.subspan(static_cast<std::size_t>(classes.begin), classes.size());
}

template <class T>
struct Gathered {
  T* values;
  const Index* classes;
  T& operator[](std::size_t c) const { return values[classes[c]]; }
};

template <class T>
Gathered<T> at_classes(std::span<T> values, ClassList classes) {
  return {values.data(), classes.data()};
}

}  // namespace manyclass
