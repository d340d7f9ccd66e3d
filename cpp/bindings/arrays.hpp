// Every check on a caller's array, and the way from NumPy's arrays to the core's views.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <span>
#include <stdexcept>
#include <string>

#include "manyclass/core/csr.hpp"

namespace manyclass {

namespace py = pybind11;

// Dtype and byte order are checked by pybind11 (arguments are .noconvert()); c_style asks for contiguous
// memory.
template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
std::span<const T> view(const Array<T>& a) {
  return {a.data(), static_cast<std::size_t>(a.size())};
}

// Throws ValueError where the array is read-only.
template <class T>
std::span<T> mutable_view(Array<T>& a) {
  return {a.mutable_data(), static_cast<std::size_t>(a.size())};
}

inline Index as_index(py::ssize_t n, const char* what) {
  if (n < 0 || n > 0x7fffffff) {
    throw std::invalid_argument(std::string(what) + " is " + std::to_string(n) + "; it must be in [0, 2147483647]");
  }
  return static_cast<Index>(n);
}

// The caller is Python code of this package that has validated the matrix (sorted, in range, finite); what
// would make the core read outside its memory is checked again here.
inline CsrView csr_view(const Array<Offset>& indptr, const Array<Index>& indices, const Array<float>& data,
                        py::ssize_t n_cols) {
  const CsrView x{view(indptr), view(indices), view(data), as_index(n_cols, "the number of columns")};
  if (x.indptr.empty() || x.indptr.front() != 0 || x.indptr.back() != static_cast<Offset>(x.indices.size()) ||
      x.indices.size() != x.data.size()) {
    throw std::invalid_argument("indptr, indices and data do not describe one CSR matrix");
  }
  for (std::size_t i = 1; i < x.indptr.size(); ++i) {
    if (x.indptr[i] < x.indptr[i - 1]) {
      throw std::invalid_argument("indptr decreases at row " + std::to_string(i - 1));
    }
  }
  for (const Index j : x.indices) {
    if (j < 0 || j >= x.n_cols) {
      throw std::invalid_argument("feature " + std::to_string(j) + " is outside [0, " + std::to_string(x.n_cols) + ")");
    }
  }
  return x;
}

inline DenseView dense_view(const Array<float>& x) {
  if (x.ndim() != 2) {
    throw std::invalid_argument("the array has " + std::to_string(x.ndim()) + " dimensions; it must have 2");
  }
  return {view(x), as_index(x.shape(0), "the number of rows"), as_index(x.shape(1), "the number of columns")};
}

}  // namespace manyclass
