// The best classes of rows without those that a caller excludes.
#pragma once

#include <span>

#include "manyclass/core/lists.hpp"

namespace manyclass {

// What was found for some rows, best first: `width` classes and their values for each.
struct FoundClasses {
  std::span<const Index> rows;  // numbers of lists of `excluded`
  std::span<const Index> classes;
  std::span<const float> values;
  std::size_t width;
};

// Writes the first k classes of each row that it does not exclude, and their values; -1 and -infinity where there are
// fewer. Throws std::invalid_argument where sizes do not fit.
void best_but(const FoundClasses& found, const Excluded& excluded, std::size_t k, std::span<Index> classes,
              std::span<float> values);

}  // namespace manyclass
