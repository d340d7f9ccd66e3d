// Products of many rows with many points: scores of sixteen points at once, and sums of rows with factors.
//
// A row that comes from memory is used for all points of a batch while it is in the registers or the nearest cache. The
// functions are meant for run_with, where they are inlined and vectorised.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

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

}  // namespace manyclass
