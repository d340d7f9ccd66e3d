// From trained weights to weights in fewer bits: which are left, and bytes with a scale for each row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Rows of numbers, the first `width` of each `stride`.
struct PaddedRows {
  std::span<const float> numbers;
  std::size_t width, stride;

  std::size_t size() const { return stride == 0 ? 0 : numbers.size() / stride; }
  std::span<const float> operator[](std::size_t row) const { return numbers.subspan(row * stride, width); }
};

// The least bits of a magnitude above 0 that at most n_kept numbers reach; ties with the next one fall. Magnitudes are
// in the order of their bits, which are counted in two passes: to sort them would need a copy of all.
std::uint32_t magnitude_bar(const PaddedRows& rows, std::size_t n_kept);

// The numbers whose magnitude reaches the bar, as lists by rows.
struct KeptNumbers {
  std::vector<Offset> indptr;
  std::vector<Index> columns;
  std::vector<float> values;
};
KeptNumbers reaching(const PaddedRows& rows, std::uint32_t bar);

// Numbers [starts[i], starts[i + 1]) are those of row i: each becomes the nearest c in [-127, 127] with the row's
// scale, which is its largest magnitude / 127, or 0 where that is below the normal floats. Throws std::invalid_argument
// for a number that is not finite.
void encode_bytes(std::span<const float> numbers, std::span<const Offset> starts, std::span<std::int8_t> codes,
                  std::span<float> scales);

}  // namespace manyclass
