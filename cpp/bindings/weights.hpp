// A linear model's weights and the data it scores, as Python passes them.
#pragma once

#include "bindings/arrays.hpp"
#include "manyclass/evaluate/tiles.hpp"

namespace manyclass {

// Feature-major weights are (D, stride) with stride a multiple of 16, class-major ones (K, D).
struct Weights {
  Matrix<const float> matrix;
  std::span<const float> intercept;
  std::span<const float> scale;  // empty: all ones
  Index n_classes;
};

inline SparseModel model_of(const Weights& w, const CsrView& x) {
  if (w.matrix.rows != x.n_cols || w.matrix.cols < w.n_classes || w.matrix.width() % line_floats != 0) {
    throw std::invalid_argument("the weights do not fit the data or are not padded to 16 classes");
  }
  return {{FeatureRows<const float>(w.matrix.data, x.n_cols), w.intercept, w.scale}, w.n_classes};
}

inline DenseModel model_of(const Weights& w, const DenseView& x) {
  if (w.matrix.rows != w.n_classes || w.matrix.cols != x.n_cols) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  return {{ClassRows<const float>(w.matrix.data, x.n_cols), w.intercept, w.scale}, w.n_classes};
}

// Calls f(data view, model).
template <class F>
auto with_data(const py::object& x, py::ssize_t n_features, const Weights& w, F&& f) {
  const auto k = static_cast<std::size_t>(w.n_classes);
  if ((!w.intercept.empty() && w.intercept.size() != k) || (!w.scale.empty() && w.scale.size() != k)) {
    throw std::invalid_argument("the intercept and the scale must have one value for each class, or none");
  }
  return std::visit([&](const auto& data) { return f(data, model_of(w, data)); }, data_view(x, n_features));
}

}  // namespace manyclass
