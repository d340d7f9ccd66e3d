// Numbers of classes in larger arrays, in which they have other places.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace manyclass {

// Rows of numbers, or columns of them, are those of classes.
struct ClassArray {
  std::size_t width = 0;  // of a row
  bool of_columns = false;
};

// Copies the numbers of class k to place position[k]; all others of `to` stay as they are. Throws std::invalid_argument
// where a place is out of range or the arrays do not fit each other.
inline void place_classes(std::span<const float> from, const ClassArray& own, std::span<const std::int64_t> position,
                          std::span<float> to, const ClassArray& all) {
  const std::size_t n = position.size();
  if (own.width == 0 || all.width == 0) throw std::invalid_argument("the arrays have no columns");
  const std::size_t n_rows = from.size() / own.width, n_all = to.size() / all.width;
  const bool fits = own.of_columns ? n_rows == n_all && n <= own.width : own.width == all.width && n <= n_rows;
  const std::size_t n_places = own.of_columns ? all.width : n_all;
  const auto inside = [&](std::int64_t at) { return at >= 0 && static_cast<std::size_t>(at) < n_places; };
  if (!fits || !std::ranges::all_of(position, inside)) {
    throw std::invalid_argument("the arrays or the places do not fit each other");
  }
  // Where new classes come last a row is copied at once: places one by one cost some ten times as much.
  bool is_first = true;
  for (std::size_t k = 0; k < n; ++k) is_first = is_first && static_cast<std::size_t>(position[k]) == k;
  for (std::size_t r = 0; r < (own.of_columns ? n_rows : n); ++r) {
    if (!own.of_columns) {
      std::ranges::copy(from.subspan(r * own.width, own.width),
                        to.subspan(static_cast<std::size_t>(position[r]) * all.width).begin());
      continue;
    }
    const auto some = from.subspan(r * own.width, n);
    const auto row = to.subspan(r * all.width, all.width);
    if (is_first) {
      std::ranges::copy(some, row.begin());
    } else {
      for (std::size_t k = 0; k < n; ++k) row[static_cast<std::size_t>(position[k])] = some[k];
    }
  }
}

}  // namespace manyclass
