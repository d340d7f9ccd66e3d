// The way from Python's arguments to the core's views, and from the core's results to arrays.
//
// An argument that is a view must be a contiguous array of exactly its type: a converted copy would take what the core
// writes. The caller is Python code of this package, which has validated values; what would make the core read outside
// its memory is checked again here and in the core.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/isa.hpp"

namespace manyclass {

namespace py = pybind11;
using namespace py::literals;

template <class T>
using Array = py::array_t<T, py::array::c_style>;

// A two-dimensional array.
template <class T>
struct Matrix {
  std::span<T> data;
  Index rows = 0, cols = 0;

  std::size_t width() const { return static_cast<std::size_t>(cols); }
};

inline Index as_index(py::ssize_t n, const char* what) {
  if (n < 0 || n > 0x7fffffff) {
    throw std::invalid_argument(std::string(what) + " is " + std::to_string(n) + "; it must be in [0, 2147483647]");
  }
  return static_cast<Index>(n);
}

// False where `source` is no such array; throws ValueError where it is to be written to and read-only.
template <class T>
bool view_array(py::handle source, std::span<T>& data) {
  using Elements = Array<std::remove_const_t<T>>;
  if (!Elements::check_(source)) return false;
  auto array = py::reinterpret_borrow<Elements>(source);
  const auto size = static_cast<std::size_t>(array.size());
  if constexpr (std::is_const_v<T>) {
    data = {array.data(), size};
  } else {
    data = {array.mutable_data(), size};
  }
  return true;
}

template <class T>
bool view_matrix(py::handle source, Matrix<T>& matrix) {
  if (!view_array(source, matrix.data)) return false;
  const auto array = py::reinterpret_borrow<py::array>(source);
  if (array.ndim() != 2) {
    throw std::invalid_argument("the array has " + std::to_string(array.ndim()) + " dimensions; it must have 2");
  }
  matrix.rows = as_index(array.shape(0), "the number of rows");
  matrix.cols = as_index(array.shape(1), "the number of columns");
  return true;
}

inline DenseView dense_view(const Matrix<const float>& x) { return {x.data, x.rows, x.cols}; }

// A sparse matrix given as (indptr, indices, data) or a dense one given as an array. The caller keeps `x` alive.
inline AnyData data_view(const py::object& x, py::ssize_t n_features) {
  if (Matrix<const float> dense; view_matrix(x, dense)) return dense_view(dense);
  CsrView csr;
  const auto parts = py::isinstance<py::tuple>(x) ? x.cast<py::tuple>() : py::tuple();
  if (parts.size() != 3 || !view_array(parts[0], csr.indptr) || !view_array(parts[1], csr.indices) ||
      !view_array(parts[2], csr.data)) {
    throw py::type_error("the data must be an array of float32 or a tuple (indptr, indices, data)");
  }
  csr.n_cols = as_index(n_features, "the number of columns");
  check(csr);
  return csr;
}

// A sparse matrix given as (indptr, indices, data).
inline CsrView csr_of(const py::object& x, py::ssize_t n_features) {
  const AnyData data = data_view(x, n_features);
  const auto* csr = std::get_if<CsrView>(&data);
  if (csr == nullptr) throw py::type_error("the data must be a tuple (indptr, indices, data)");
  return *csr;
}

template <class T>
std::span<const T> view(const Array<T>& a) {
  return {a.data(), static_cast<std::size_t>(a.size())};
}

template <class T>
std::span<T> mutable_view(Array<T>& a) {
  return {a.mutable_data(), static_cast<std::size_t>(a.size())};
}

// An array of n entries to be written; pybind11 counts in a signed type.
template <class T>
Array<T> empty_array(std::size_t n) {
  return Array<T>(static_cast<py::ssize_t>(n));
}

template <class T>
Array<T> array_of(const std::vector<T>& values) {
  return Array<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

template <class T>
Array<T> matrix_of(std::span<const T> values, std::size_t n_columns) {
  return Array<T>({values.size() / n_columns, n_columns}, values.data());
}

// Lets Python's signal handlers run; throws Interrupted, with Python's error set, where one of them raised or the time
// that the caller has set is up.
void ask_python();

// f() without the GIL. f sees views only. Where it polls, it is ended as ask_python() says.
template <class F>
auto released(F&& f) {
  try {
    const py::gil_scoped_release nogil;
    const Asking asking(&ask_python);
    return std::forward<F>(f)();
  } catch (const Interrupted&) {
    throw py::error_already_set();
  }
}

using Shape = std::vector<std::size_t>;

// An array of this shape that f(out) fills in.
template <class F>
Array<double> filled(const Shape& shape, const F& f) {
  Array<double> out(shape);
  std::ranges::fill(mutable_view(out), 0.0);
  const std::span<double> values = mutable_view(out);
  released([&] { f(values); });
  return out;
}

// Of a constructor, or of a function that returns an object: all arguments live as long as the object, which views
// them.
struct KeepAll {};

}  // namespace manyclass

namespace pybind11::detail {

template <>
struct process_attribute<manyclass::KeepAll> : process_attribute_default<manyclass::KeepAll> {
  static void postcall(function_call& call, handle result) {
    const bool constructs = static_cast<bool>(call.init_self);  // then the first argument is no Python object
    for (std::size_t i = constructs ? 1 : 0; i < call.args.size(); ++i) {
      keep_alive_impl(constructs ? call.init_self : result, call.args[i]);
    }
  }
};

template <class T>
struct type_caster<std::span<T>> {
  PYBIND11_TYPE_CASTER(std::span<T>, const_name("numpy.ndarray"));
  bool load(handle source, bool) { return manyclass::view_array(source, value); }
};

template <class T>
struct type_caster<manyclass::Matrix<T>> {
  PYBIND11_TYPE_CASTER(manyclass::Matrix<T>, const_name("numpy.ndarray"));
  bool load(handle source, bool) { return manyclass::view_matrix(source, value); }
};

template <>
struct type_caster<manyclass::Isa> {
  PYBIND11_TYPE_CASTER(manyclass::Isa, const_name("str"));
  bool load(handle source, bool) {
    if (!isinstance<str>(source)) return false;
    value = manyclass::isa_named(source.cast<std::string>());
    return true;
  }
};

}  // namespace pybind11::detail
