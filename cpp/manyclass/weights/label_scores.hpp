// The score of one class of each point under a linear model, and points by the columns that weights have kept.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"

namespace manyclass {

// Weights of a linear model: rows of features with a column for each class and padding, or rows of classes.
struct ConstLinearWeights {
  std::span<const float> matrix;
  std::size_t stride;
  std::span<const float> intercept;
  bool by_feature;
};

// Writes w_k.x_i + b_k for k = labels[i], summed in double. Throws std::invalid_argument where arrays do not fit.
void label_scores(const AnyData& x, std::span<const Index> labels, const ConstLinearWeights& weights,
                  std::span<double> out);

struct OwnedCsr {
  std::vector<Offset> indptr;
  std::vector<Index> indices;
  std::vector<float> data;
};

// The stored values of some columns, which increase: column columns[c] is column c of what is returned.
OwnedCsr some_columns(const CsrView& x, std::span<const Index> columns);

}  // namespace manyclass
