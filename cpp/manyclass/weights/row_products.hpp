// Products of many rows with many points: scores of sixteen points at once, and sums of rows with factors, one or
// several of them at once.
//
// A row that comes from memory is used for all points of a batch while it is in the registers or the nearest cache. The
// functions are meant for run_with, where they are inlined and vectorised.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/weights/vector_rows.hpp"

namespace manyclass {

inline constexpr std::size_t scored_points = line_floats;  // as many points as their scores by one row fill a line
inline constexpr std::size_t scored_rows = 8;              // as many running sums as stay in registers

// Writes tile[r][p] = rows[r] . phi_p for `Rows` rows. `columns` holds phi_p as its p-th column, width x scored_points.
template <std::size_t Bytes, std::size_t Rows>
inline void score_columns(const float* const* rows, std::size_t width, const float* columns,
                          float (*tile)[scored_points]) {
  constexpr std::size_t parts = line_bytes / Bytes, lanes = Bytes / sizeof(float);
  Vector<float, Bytes> sums[Rows][parts] = {};
  for (std::size_t j = 0; j < width; ++j) {
    Vector<float, Bytes> column[parts];
#pragma GCC unroll 4
    for (std::size_t p = 0; p < parts; ++p) std::memcpy(&column[p], columns + j * scored_points + p * lanes, Bytes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r) {
      const float w = rows[r][j];
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts; ++p) sums[r][p] += w * column[p];
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (std::size_t p = 0; p < parts; ++p) std::memcpy(tile[r] + p * lanes, &sums[r][p], Bytes);
  }
}

// The same for as many rows as there are, at most scored_rows.
template <std::size_t Rows>
inline void score_rows(Isa isa, const std::array<const float*, Rows>& rows, std::size_t width, const float* columns,
                       float (&tile)[scored_rows][scored_points]) {
  with_vectors(isa, [&]<std::size_t Bytes>() {
    // Registers hold the sums, the vectors of a column and a weight.
    constexpr std::size_t together = std::min(Rows, std::bit_floor((n_registers<Bytes> - 6) / (line_bytes / Bytes)));
    static_assert(Rows % together == 0);
    for (std::size_t r = 0; r < Rows; r += together) {
      score_columns<Bytes, together>(&rows[r], width, columns, &tile[r]);
    }
  });
}

// Makes to += sum_i factors[i] rows[i]. All have `width` floats, whole cache lines, and `to` is none of the rows.
inline void add_combination(Isa isa, float* to, std::span<const float> factors, std::span<const float* const> rows,
                            std::size_t width) {
  const auto factor = [&](std::size_t i, std::size_t) { return factors[i]; };
  with_vectors(isa, [&]<std::size_t Bytes>() {
    constexpr std::size_t lanes = Bytes / sizeof(float);
    std::size_t j = 0;
    for (; j + 8 * lanes <= width; j += 8 * lanes) add_tile<float, Bytes, 1, 8>(rows, factor, j, &to);
    for (; j + 4 * lanes <= width; j += 4 * lanes) add_tile<float, Bytes, 1, 4>(rows, factor, j, &to);
    for (; j + 2 * lanes <= width; j += 2 * lanes) add_tile<float, Bytes, 1, 2>(rows, factor, j, &to);
    for (; j < width; j += lanes) add_tile<float, Bytes, 1, 1>(rows, factor, j, &to);
  });
}

inline constexpr std::size_t combined_rows = 8;  // sums that are made together

// Makes to[r] += sum_i factor(i, r) rows[i] for combined_rows sums r, each bit for bit as add_combination makes it.
//
// A line of a row is read once for several sums: one sum alone reads a line for each multiply-add, and the one line
// that is left of rows of nine waits for the addition before. As many sums are made at once as registers hold.
template <class Factor>
inline void add_combinations(Isa isa, float* const (&to)[combined_rows], const Factor& factor,
                             std::span<const float* const> rows, std::size_t width) {
  with_vectors(isa, [&]<std::size_t Bytes>() {
    constexpr std::size_t lanes = Bytes / sizeof(float);
    const auto add = [&]<std::size_t Sums, std::size_t Vectors>(std::size_t j) {
      for (std::size_t r = 0; r < combined_rows; r += Sums) {
        const auto of_sum = [&](std::size_t i, std::size_t s) { return factor(i, r + s); };
        add_tile<float, Bytes, Sums, Vectors>(rows, of_sum, j, to + r);
      }
    };
    std::size_t j = 0;
    if constexpr (Bytes == 64) {
      for (; j + 3 * lanes <= width; j += 3 * lanes) add.template operator()<8, 3>(j);
      for (; j + 2 * lanes <= width; j += 2 * lanes) add.template operator()<8, 2>(j);
      for (; j < width; j += lanes) add.template operator()<8, 1>(j);
    } else {
      constexpr std::size_t sums = n_registers<Bytes> == 32 || Bytes == 32 ? 4 : 2;
      for (; j < width; j += line_floats) add.template operator()<sums, line_bytes / Bytes>(j);
    }
  });
}

}  // namespace manyclass
