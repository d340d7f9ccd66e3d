// See best_but.hpp.
#include "manyclass/evaluate/best_but.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace manyclass {

void best_but(const FoundClasses& found, const Excluded& excluded, std::size_t k, std::span<Index> classes,
              std::span<float> values) {
  const std::size_t n = found.rows.size(), n_lists = excluded.indptr.empty() ? 0 : excluded.indptr.size() - 1;
  if (found.classes.size() != n * found.width || found.values.size() != n * found.width || classes.size() != n * k ||
      values.size() != n * k) {
    throw std::invalid_argument("the classes found and those to be written do not fit the rows");
  }
  std::ranges::fill(classes, -1);
  std::ranges::fill(values, -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(found.rows[i]);
    if (row >= n_lists) throw std::invalid_argument("a row has no list of excluded classes");
    const std::span<const Index> wrong = excluded.of(row);
    std::size_t kept = 0;
    for (std::size_t j = i * found.width; j < (i + 1) * found.width && kept < k; ++j) {
      if (std::ranges::binary_search(wrong, found.classes[j])) continue;
      classes[i * k + kept] = found.classes[j];
      values[i * k + kept] = found.values[j];
      ++kept;
    }
  }
}

}  // namespace manyclass
