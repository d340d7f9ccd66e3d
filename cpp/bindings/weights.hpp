// A linear model's weights and the data it scores, as Python passes them.
#pragma once

#include <stdexcept>

#include "bindings/arrays.hpp"
#include "manyclass/evaluate/tiles.hpp"

namespace manyclass {

// Feature-major weights are (D, stride) with stride a multiple of 16, class-major ones (K, D).
struct Weights {
  Array<float> matrix;
  Array<float> intercept;
  Array<float> scale;  // empty: all ones
  py::ssize_t n_classes;
};

inline SparseModel sparse_model(const Weights& w, const CsrView& x) {
  if (w.matrix.ndim() != 2 || w.matrix.shape(0) != x.n_cols || w.matrix.shape(1) < w.n_classes ||
      w.matrix.shape(1) % static_cast<py::ssize_t>(line_floats) != 0) {
    throw std::invalid_argument("the weights do not fit the data or are not padded to 16 classes");
  }
  return {{FeatureRows<const float>(view(w.matrix), x.n_cols), view(w.intercept), view(w.scale)},
          as_index(w.n_classes, "n_classes")};
}

inline DenseModel dense_model(const Weights& w, const DenseView& x) {
  if (w.matrix.ndim() != 2 || w.matrix.shape(0) != w.n_classes || w.matrix.shape(1) != x.n_cols) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  return {{ClassRows<const float>(view(w.matrix), x.n_cols), view(w.intercept), view(w.scale)},
          as_index(w.n_classes, "n_classes")};
}

// Calls f(data view, model) for a sparse matrix given as (indptr, indices, data) or a dense one given as an
// array.
template <class F>
auto with_data(const py::object& x, py::ssize_t n_features, const Weights& w, F&& f) {
  if ((w.intercept.size() != 0 && w.intercept.size() != w.n_classes) ||
      (w.scale.size() != 0 && w.scale.size() != w.n_classes)) {
    throw std::invalid_argument("the intercept and the scale must have one value for each class, or none");
  }
  if (py::isinstance<py::tuple>(x)) {
    const auto parts = x.cast<py::tuple>();
    const auto indptr = parts[0].cast<Array<Offset>>();
    const auto indices = parts[1].cast<Array<Index>>();
    const auto data = parts[2].cast<Array<float>>();
    const CsrView csr = csr_view(indptr, indices, data, n_features);
    return f(csr, sparse_model(w, csr));
  }
  const auto array = x.cast<Array<float>>();
  const DenseView dense = dense_view(array);
  return f(dense, dense_model(w, dense));
}

}  // namespace manyclass
