// Weights in fewer bits, a line of sixteen of them as floats: halves, bytes, and floats as they are.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "manyclass/core/vectors.hpp"

namespace manyclass {

// A half has 5 bits of exponent with bias 15 and 10 of mantissa m. Moved to where a float has the low bits of its
// exponent (bias 127) and the high ones of its mantissa, they lack 127 - 15 in the exponent. A subnormal half is m
// 2^-24: with the exponent of 2^-14 it is 2^-14 (1 + m 2^-10), 2^-14 too much. To multiply by 2^112 instead, subnormal
// halves included, would make floats that are subnormal, on which processors take ten times as long. Weights are
// finite, so that the exponent 31 does not occur.
inline constexpr int mantissa_shift = 23 - 10;
inline constexpr std::int32_t kept_bits = 0x0fffe000, one_exponent = 1 << 23, rebias = (127 - 15) * one_exponent;
inline constexpr std::int32_t sign_bit = std::numeric_limits<std::int32_t>::min();  // that of a widened half, too
inline constexpr float least_normal = 0x1p-14F;

// The half that is a float, where one is.
inline std::uint16_t half_of(float w) {
  const auto bits = std::bit_cast<std::int32_t>(w);
  const std::int32_t magnitude = bits & std::numeric_limits<std::int32_t>::max();
  const std::int32_t half = std::bit_cast<float>(magnitude) < least_normal
                                ? static_cast<std::int32_t>(std::bit_cast<float>(magnitude) * 0x1p24F)
                                : (magnitude - rebias) >> mantissa_shift;
  return static_cast<std::uint16_t>(half | (bits < 0 ? 0x8000 : 0));
}

inline float value_of(float w) { return w; }
inline float value_of(std::int8_t c) { return static_cast<float>(c); }
inline float value_of(std::uint16_t half) {
  const std::int32_t bits = (static_cast<std::int32_t>(half) << mantissa_shift) & kept_bits;
  const float magnitude = bits < one_exponent ? std::bit_cast<float>(bits + rebias + one_exponent) - least_normal
                                              : std::bit_cast<float>(bits + rebias);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

// The sixteen weights of a line as floats or integers, in vectors of `Bytes` (core/vectors.hpp).
template <std::size_t Bytes>
inline constexpr std::size_t parts_of_line = line_bytes / Bytes;
template <std::size_t Bytes>
using Floats = Vector<float, Bytes>[parts_of_line<Bytes>];
template <std::size_t Bytes>
using Ints = Vector<std::int32_t, Bytes>[parts_of_line<Bytes>];

template <std::size_t Bytes>
inline void read_ints(const std::int8_t* from, Ints<Bytes>& to) {
  if constexpr (Bytes == 16) {
    // SSE2 widens by doubling: a number of 8 bits, four times side by side, is shifted right by 24.
    Vector<std::int8_t, 16> bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    const Vector<std::int8_t, 16> doubled[] = {
        __builtin_shufflevector(bytes, bytes, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
        __builtin_shufflevector(bytes, bytes, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      Vector<std::int16_t, 16> two;
      std::memcpy(&two, &doubled[half], sizeof two);
      const Vector<std::int16_t, 16> low = __builtin_shufflevector(two, two, 0, 8, 1, 9, 2, 10, 3, 11);
      const Vector<std::int16_t, 16> high = __builtin_shufflevector(two, two, 4, 12, 5, 13, 6, 14, 7, 15);
      std::memcpy(&to[2 * half], &low, sizeof low);
      std::memcpy(&to[2 * half + 1], &high, sizeof high);
      to[2 * half] >>= 24;
      to[2 * half + 1] >>= 24;
    }
  } else {
#pragma GCC unroll 4
    for (std::size_t p = 0; p < parts_of_line<Bytes>; ++p) {
      Vector<std::int8_t, Bytes / 4> bytes;
      std::memcpy(&bytes, from + p * sizeof bytes, sizeof bytes);
      // In two steps, because GCC 12 widens four times in one step number by number.
      to[p] = __builtin_convertvector(__builtin_convertvector(bytes, Vector<std::int16_t, Bytes / 2>),
                                      Vector<std::int32_t, Bytes>);
    }
  }
}

template <std::size_t Bytes>
inline void read_ints(const std::uint16_t* from, Ints<Bytes>& to) {
#pragma GCC unroll 4
  for (std::size_t p = 0; p < parts_of_line<Bytes>; ++p) {
    Vector<std::int16_t, Bytes / 2> halves;
    std::memcpy(&halves, from + p * sizeof halves / 2, sizeof halves);
    to[p] = __builtin_convertvector(halves, Vector<std::int32_t, Bytes>);
  }
}

template <std::size_t Bytes>
inline void read_line(const float* from, Floats<Bytes>& to) {
#pragma GCC unroll 4
  for (std::size_t p = 0; p < parts_of_line<Bytes>; ++p) std::memcpy(&to[p], from + p * Bytes / sizeof(float), Bytes);
}
template <std::size_t Bytes>
inline void read_line(const std::int8_t* from, Floats<Bytes>& to) {
  Ints<Bytes> ints;
  read_ints<Bytes>(from, ints);
#pragma GCC unroll 4
  for (std::size_t p = 0; p < parts_of_line<Bytes>; ++p) {
    to[p] = __builtin_convertvector(ints[p], Vector<float, Bytes>);
  }
}
template <std::size_t Bytes>
inline void read_line(const std::uint16_t* from, Floats<Bytes>& to) {
  Ints<Bytes> wide;
  read_ints<Bytes>(from, wide);
#pragma GCC unroll 4
  for (std::size_t p = 0; p < parts_of_line<Bytes>; ++p) {
    const auto bits = (wide[p] << mantissa_shift) & kept_bits;
    const auto normal = bits + rebias, raised = normal + one_exponent;
    Vector<float, Bytes> subnormal;
    std::memcpy(&subnormal, &raised, Bytes);
    subnormal -= least_normal;
    Vector<std::int32_t, Bytes> as_bits;
    std::memcpy(&as_bits, &subnormal, Bytes);
    const auto is_subnormal = bits < one_exponent;
    const auto found = (as_bits & is_subnormal) | (normal & ~is_subnormal) | (wide[p] & sign_bit);
    std::memcpy(&to[p], &found, Bytes);
  }
}

// As many weights as there is room for.
template <class Value>
inline void read_floats(const Value* from, Isa isa, std::span<float> to) {
  constexpr std::size_t n = line_bytes / sizeof(float);
  std::size_t j = 0;
  with_vectors(isa, [&]<std::size_t Bytes>() {
    for (; j + n <= to.size(); j += n) {
      Floats<Bytes> line;
      read_line<Bytes>(from + j, line);
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts_of_line<Bytes>; ++p) {
        std::memcpy(to.data() + j + p * Bytes / sizeof(float), &line[p], Bytes);
      }
    }
  });
  for (; j < to.size(); ++j) to[j] = value_of(from[j]);
}

}  // namespace manyclass
