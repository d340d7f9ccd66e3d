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

}  // namespace manyclass
