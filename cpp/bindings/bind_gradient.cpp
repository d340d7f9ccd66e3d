// Exact passes over all points and classes in double precision: loss and gradient, and the parts of a duality bound.
#include <pybind11/stl.h>

#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "manyclass/exact/balanced_softmax.hpp"
#include "manyclass/exact/gradient.hpp"

namespace manyclass {

namespace {

using namespace py::literals;

// Feature-major weights are (D, K or more), class-major ones (K, D).
template <class Weight>
DoubleModel<FeatureMajor<Weight>> model_of(const CsrView& x, const Array<Weight>& matrix,
                                           const Array<double>& intercept, Index n_classes) {
  if (matrix.ndim() != 2 || matrix.shape(0) != x.n_cols || matrix.shape(1) < n_classes) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  return {{view(matrix), static_cast<std::size_t>(matrix.shape(1))}, view(intercept), n_classes};
}

template <class Weight>
DoubleModel<ClassMajor<Weight>> model_of(const DenseView& x, const Array<Weight>& matrix,
                                         const Array<double>& intercept, Index n_classes) {
  if (matrix.ndim() != 2 || matrix.shape(0) != n_classes || matrix.shape(1) != x.n_cols) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  return {{view(matrix), static_cast<std::size_t>(matrix.shape(1))}, view(intercept), n_classes};
}

template <class T>
void check_size(const Array<T>& a, py::ssize_t size, const char* what) {
  if (a.size() != size) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(a.size()) + " values; it must have " +
                                std::to_string(size));
  }
}

// Calls f(data view, model) for a sparse matrix given as (indptr, indices, data) or a dense one given as an array,
// once its labels and weights are known to fit.
template <class Weight, class F>
auto with_model(const py::object& x, py::ssize_t n_features, const Array<Weight>& matrix,
                const Array<double>& intercept, py::ssize_t n_classes, const Array<Index>& labels, F&& f) {
  const Index k = as_index(n_classes, "n_classes");
  if (k < 1) throw std::invalid_argument("n_classes is 0; it must be at least 1");
  if (intercept.size() != 0) check_size(intercept, n_classes, "the intercept");
  const auto checked = [&](const auto& data) {
    check_size(labels, data.n_rows(), "y");
    if (data.n_rows() == 0) throw std::invalid_argument("X has no rows");
    for (const Index label : view(labels)) {
      if (label < 0 || label >= k) throw std::invalid_argument("a label is out of range");
    }
    return f(data, model_of(data, matrix, intercept, k));
  };
  if (py::isinstance<py::tuple>(x)) {
    const auto parts = x.cast<py::tuple>();
    const auto indptr = parts[0].cast<Array<Offset>>();
    const auto indices = parts[1].cast<Array<Index>>();
    const auto data = parts[2].cast<Array<float>>();
    return checked(csr_view(indptr, indices, data, n_features));
  }
  const auto array = x.cast<Array<float>>();
  return checked(dense_view(array));
}

double gradient(const std::string& loss, const py::object& x, py::ssize_t n_features, const Array<double>& matrix,
                const Array<double>& intercept, py::ssize_t n_classes, const Array<Index>& labels,
                Array<double> matrix_gradient, Array<double> intercept_gradient, int n_threads,
                const std::string& isa) {
  return with_model(x, n_features, matrix, intercept, n_classes, labels, [&](const auto& data, const auto& model) {
    check_size(matrix_gradient, matrix.size(), "the gradient");
    check_size(intercept_gradient, intercept.size(), "the intercept's gradient");
    const std::span<double> out = mutable_view(matrix_gradient);
    const std::span<double> out_intercept = mutable_view(intercept_gradient);
    const py::gil_scoped_release nogil;
    return loss_and_gradient(loss, data, view(labels), model, n_threads, isa_named(isa), out, out_intercept);
  });
}

py::tuple totals(const py::object& x, py::ssize_t n_features, const Array<float>& matrix,
                 const Array<double>& intercept, py::ssize_t n_classes, const Array<Index>& labels, int n_threads,
                 const std::string& isa) {
  return with_model(x, n_features, matrix, intercept, n_classes, labels, [&](const auto& data, const auto& model) {
    Array<double> normalizers(labels.size()), losses(labels.size()), sums(n_classes);
    const std::span<double> out = mutable_view(normalizers), out_losses = mutable_view(losses);
    const std::span<double> out_sums = mutable_view(sums);
    {
      const py::gil_scoped_release nogil;
      softmax_totals(data, view(labels), model, n_threads, isa_named(isa), out, out_losses, out_sums);
    }
    return py::make_tuple(normalizers, losses, sums);
  });
}

py::tuple balanced(const py::object& x, py::ssize_t n_features, const Array<float>& matrix,
                   const Array<double>& intercept, py::ssize_t n_classes, const Array<Index>& labels,
                   const Array<double>& normalizers, const Array<double>& keep, const Array<double>& fill,
                   int n_threads, const std::string& isa) {
  return with_model(x, n_features, matrix, intercept, n_classes, labels, [&](const auto& data, const auto& model) {
    check_size(normalizers, labels.size(), "normalizers");
    check_size(keep, n_classes, "keep");
    check_size(fill, n_classes, "fill");
    const Balance balance{view(normalizers), view(keep), view(fill)};
    std::vector<double> removed(balance.normalizers.size());
    Array<double> entropies(labels.size()), label_probabilities(labels.size());
    const std::span<double> out = mutable_view(entropies), out_labels = mutable_view(label_probabilities);
    double residual = 0;
    {
      const py::gil_scoped_release nogil;
      const Isa set = isa_named(isa);
      balanced_rows(data, view(labels), model, balance, n_threads, set, removed, out, out_labels);
      residual = balanced_residual(data, view(labels), model, balance, removed, n_threads, set);
    }
    return py::make_tuple(entropies, label_probabilities, residual);
  });
}

}  // namespace

void bind_gradient(py::module_& m) {
  m.def("loss_and_gradient", &gradient, py::kw_only(), "loss"_a, "x"_a, "n_features"_a, "matrix"_a.noconvert(),
        "intercept"_a.noconvert(), "n_classes"_a, "labels"_a.noconvert(), "gradient"_a.noconvert(),
        "intercept_gradient"_a.noconvert(), "n_threads"_a, "isa"_a = "auto");
  m.def("softmax_totals", &totals, py::kw_only(), "x"_a, "n_features"_a, "matrix"_a.noconvert(),
        "intercept"_a.noconvert(), "n_classes"_a, "labels"_a.noconvert(), "n_threads"_a, "isa"_a = "auto");
  m.def("balanced_softmax", &balanced, py::kw_only(), "x"_a, "n_features"_a, "matrix"_a.noconvert(),
        "intercept"_a.noconvert(), "n_classes"_a, "labels"_a.noconvert(), "normalizers"_a.noconvert(),
        "keep"_a.noconvert(), "fill"_a.noconvert(), "n_threads"_a, "isa"_a = "auto");
}

}  // namespace manyclass
