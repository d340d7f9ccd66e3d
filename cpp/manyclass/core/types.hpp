// The types that every stage shares, and the legend of the letters that stand in formulas.
//
//   N points, D features, K classes      x_i, y_i   row i of the data and its class
//   W (K x D), row w_k                   z_k = w_k.x   score;   d_k = z_k - z_y
//   S, alpha   the selected wrong classes and their inclusion weights:
//              sum_S alpha g estimates the sum of g over all wrong classes without bias
//   eta        step size on the mean loss
//   u_i        the log-normaliser that point i carries between visits (Fagan & Iyengar 2018)
//   p_k        how far a step moves row k:  w_k -= p_k x,  w_y += (sum p) x
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace manyclass {

using Index = std::int32_t;   // a class, a feature or a point
using Offset = std::int64_t;  // a position in the arrays of a CSR matrix

struct SparseRow {
  std::span<const Index> indices;
  std::span<const float> values;
};

using DenseRow = std::span<const float>;

}  // namespace manyclass
