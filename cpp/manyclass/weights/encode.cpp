// See encode.hpp.
#include "manyclass/weights/encode.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "manyclass/core/interrupt.hpp"

namespace manyclass {

namespace {

std::uint32_t magnitude(float number) { return std::bit_cast<std::uint32_t>(number) & 0x7FFFFFFFU; }

// Calls f(bits) for the magnitude of every number.
template <class F>
void each_magnitude(const PaddedRows& rows, const F& f) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    poll(rows.width);
    for (const float number : rows[i]) f(magnitude(number));
  }
}

// The least place from which on, with `beyond`, at most n_kept are counted; one more than the last where none is.
std::size_t least_place(const std::vector<std::size_t>& counts, std::size_t beyond, std::size_t n_kept) {
  std::size_t place = counts.size(), n = beyond;
  while (place > 0 && n + counts[place - 1] <= n_kept) n += counts[--place];
  return place;
}

}  // namespace

std::uint32_t magnitude_bar(const PaddedRows& rows, std::size_t n_kept) {
  constexpr std::uint32_t low_bits = 15;  // magnitudes have 31 bits, which are counted by the 16 high ones and by these
  std::vector<std::size_t> counts(std::size_t{1} << 16);
  each_magnitude(rows, [&](std::uint32_t bits) { ++counts[bits >> low_bits]; });
  const std::size_t high = least_place(counts, 0, n_kept);
  if (high == 0) return 1;
  std::size_t beyond = 0;
  for (std::size_t place = high; place < counts.size(); ++place) beyond += counts[place];
  counts.assign(std::size_t{1} << low_bits, 0);
  each_magnitude(rows, [&](std::uint32_t bits) {
    if (bits >> low_bits == high - 1) ++counts[bits & ((1U << low_bits) - 1)];
  });
  const std::size_t low = least_place(counts, beyond, n_kept);
  return std::max(1U, (static_cast<std::uint32_t>(high - 1) << low_bits) + static_cast<std::uint32_t>(low));
}

KeptNumbers reaching(const PaddedRows& rows, std::uint32_t bar) {
  KeptNumbers kept;
  kept.indptr.push_back(0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    poll(rows.width);
    const std::span<const float> row = rows[i];
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (magnitude(row[c]) < bar) continue;
      kept.columns.push_back(static_cast<Index>(c));
      kept.values.push_back(row[c]);
    }
    kept.indptr.push_back(static_cast<Offset>(kept.values.size()));
  }
  return kept;
}

void encode_bytes(std::span<const float> numbers, std::span<const Offset> starts, std::span<std::int8_t> codes,
                  std::span<float> scales) {
  constexpr float largest_code = 127;
  if (starts.size() != scales.size() + 1 || codes.size() != numbers.size() || starts.front() != 0 ||
      starts.back() != static_cast<Offset>(numbers.size()) || !std::ranges::is_sorted(starts)) {
    throw std::invalid_argument("the rows do not fit the numbers and their codes");
  }
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const auto begin = static_cast<std::size_t>(starts[i]), size = static_cast<std::size_t>(starts[i + 1]) - begin;
    const std::span<const float> row = numbers.subspan(begin, size);
    poll(size);
    float largest = 0;
    for (const float number : row) {
      if (!std::isfinite(number)) {
        throw std::invalid_argument("a weight is " + std::string(std::isnan(number) ? "nan" : "inf") +
                                    "; only finite weights can be compressed: fit again, with smaller steps");
      }
      largest = std::max(largest, std::fabs(number));
    }
    const float scale = largest / largest_code;
    // Scales below the normal floats lose bits, and so would the codes: weights of rows so small become 0.
    scales[i] = scale < std::numeric_limits<float>::min() ? 0 : scale;
    for (std::size_t j = 0; j < size; ++j) {
      const float code = scales[i] == 0 ? 0 : std::nearbyint(row[j] / scales[i]);
      codes[begin + j] = static_cast<std::int8_t>(std::clamp(code, -largest_code, largest_code));
    }
  }
}

}  // namespace manyclass
