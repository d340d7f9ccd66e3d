// Products of many rows with many points: scores of sixteen points at once, and sums of rows with factors, one or
// several of them at once.
//
// A row that comes from memory is used for all points of a batch while it is in the registers or the nearest cache. The
// functions are meant for run_with, where they are inlined and vectorised.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/weights/vector_rows.hpp"

namespace manyclass {

inline constexpr std::size_t scored_points = line_floats;  // as many points as their scores by one row fill a vector
inline constexpr std::size_t scored_rows = 8;              // as many running sums as stay in registers

// Writes tile[r][p] = rows[r] . phi_p. `columns` holds phi_p as its p-th column, width x scored_points.
template <std::size_t Rows>
inline void score_rows(const std::array<const float*, Rows>& rows, std::size_t width, const float* columns,
                       float (&tile)[scored_rows][scored_points]) {
  using Line = VectorRows::Line;
  Line sums[Rows] = {};
  for (std::size_t j = 0; j < width; ++j) {
    Line column;
    std::memcpy(&column, columns + j * scored_points, sizeof(Line));
    for (std::size_t r = 0; r < Rows; ++r) sums[r] += rows[r][j] * column;
  }
  std::memcpy(tile, sums, sizeof(sums));
}

// The part of add_combination that covers `Lines` cache lines from column j on.
template <std::size_t Lines>
inline void add_combination_at(std::size_t j, float* to, std::span<const float> factors,
                               std::span<const float* const> rows) {
  using Line = VectorRows::Line;
  Line sums[Lines];
  std::memcpy(sums, to + j, sizeof(sums));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t l = 0; l < Lines; ++l) {
      Line row;
      std::memcpy(&row, rows[i] + j + l * line_floats, sizeof(Line));
      sums[l] += factors[i] * row;
    }
  }
  std::memcpy(to + j, sums, sizeof(sums));
}

// Makes to += sum_i factors[i] rows[i]. All have `width` floats, whole cache lines, and `to` is none of the rows.
inline void add_combination(float* to, std::span<const float> factors, std::span<const float* const> rows,
                            std::size_t width) {
  std::size_t j = 0;
  for (; j + 8 * line_floats <= width; j += 8 * line_floats) add_combination_at<8>(j, to, factors, rows);
  for (; j + 4 * line_floats <= width; j += 4 * line_floats) add_combination_at<4>(j, to, factors, rows);
  for (; j < width; j += line_floats) add_combination_at<1>(j, to, factors, rows);
}

inline constexpr std::size_t combined_rows = 8;  // sums that are made together

// The part of add_combinations that covers `Sums` sums and `Lines` cache lines from column j on. Lines are copied one by
// one: what is copied as an array stays in memory, and every addition is stored.
template <std::size_t Sums, std::size_t Lines, class Factor>
inline void add_combinations_at(std::size_t j, float* const* to, std::size_t first, const Factor& factor,
                                std::span<const float* const> rows) {
  using Line = VectorRows::Line;
  Line sums[Sums][Lines];
  for (std::size_t r = 0; r < Sums; ++r) {
    for (std::size_t l = 0; l < Lines; ++l) std::memcpy(&sums[r][l], to[first + r] + j + l * line_floats, sizeof(Line));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Line row[Lines];
    for (std::size_t l = 0; l < Lines; ++l) std::memcpy(&row[l], rows[i] + j + l * line_floats, sizeof(Line));
    for (std::size_t r = 0; r < Sums; ++r) {
      const float by = factor(i, first + r);
      for (std::size_t l = 0; l < Lines; ++l) sums[r][l] += by * row[l];
    }
  }
  for (std::size_t r = 0; r < Sums; ++r) {
    for (std::size_t l = 0; l < Lines; ++l) std::memcpy(to[first + r] + j + l * line_floats, &sums[r][l], sizeof(Line));
  }
}

// Makes to[r] += sum_i factor(i, r) rows[i] for combined_rows sums r, each bit for bit as add_combination makes it.
//
// A line of a row is read once for several sums: one sum alone reads a line for each multiply-add, and the one line
// that is left of rows of nine waits for the addition before. As many sums are made at once as registers hold.
template <class Factor>
inline void add_combinations(Isa isa, float* const (&to)[combined_rows], const Factor& factor,
                             std::span<const float* const> rows, std::size_t width) {
  std::size_t j = 0;
  if (isa == Isa::avx512) {  // 32 registers of a line
    for (; j + 3 * line_floats <= width; j += 3 * line_floats) add_combinations_at<8, 3>(j, to, 0, factor, rows);
    for (; j + 2 * line_floats <= width; j += 2 * line_floats) add_combinations_at<8, 2>(j, to, 0, factor, rows);
    for (; j < width; j += line_floats) add_combinations_at<8, 1>(j, to, 0, factor, rows);
  } else if (isa == Isa::avx2) {  // 16 registers of half a line
    for (; j < width; j += line_floats) {
      for (std::size_t r = 0; r < combined_rows; r += 4) add_combinations_at<4, 1>(j, to, r, factor, rows);
    }
  } else {  // 16 registers of a quarter
    for (; j < width; j += line_floats) {
      for (std::size_t r = 0; r < combined_rows; r += 2) add_combinations_at<2, 1>(j, to, r, factor, rows);
    }
  }
}

}  // namespace manyclass
