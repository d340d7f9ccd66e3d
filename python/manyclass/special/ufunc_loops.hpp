// NumPy's inner loops over a scalar C++ function, in float and in double.
#pragma once

#include <array>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/ndarraytypes.h>
#include <numpy/ufuncobject.h>

namespace manyclass {

// NumPy's error state is decided by IEEE's flags, which intermediate values inside f may have set for no
// reason of the caller's. So invalid is set exactly where a NaN comes of no NaN, and the others stay only
// where a result shows them.
template <class T, class F, std::size_t... I>
void ufunc_loop(char** arrays, npy_intp n, const npy_intp* strides, F f, std::index_sequence<I...>) {
  constexpr std::size_t out = sizeof...(I);
  int shown = 0;
  for (npy_intp i = 0; i < n; ++i) {
    const std::array<T, out> x{*reinterpret_cast<const T*>(arrays[I] + i * strides[I])...};
    const T y = f(x[I]...);
    if (std::isnan(y) && !(std::isnan(x[I]) || ...)) shown |= FE_INVALID;
    if (std::isinf(y)) shown |= FE_OVERFLOW;
    if (std::fabs(y) < std::numeric_limits<T>::min()) shown |= FE_UNDERFLOW;
    *reinterpret_cast<T*>(arrays[out] + i * strides[out]) = y;
  }
  std::feclearexcept((FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW) & ~shown);
  if ((shown & FE_INVALID) != 0) std::feraiseexcept(FE_INVALID);
}

// f : a captureless generic lambda over the overloads of a function of n_in arguments.
template <class T, std::size_t n_in, auto f>
void ufunc_loop(char** arrays, const npy_intp* sizes, const npy_intp* strides, void*) {
  ufunc_loop<T>(arrays, sizes[0], strides, f, std::make_index_sequence<n_in>());
}

// What PyUFunc_FromFuncAndData asks for and does not copy.
struct Ufunc {
  PyUFuncGenericFunction* loops;
  void** data;
  char* types;
  int n_types;
  int n_in;
};

template <std::size_t n_in, auto f>
Ufunc ufunc_of() {
  static PyUFuncGenericFunction loops[] = {ufunc_loop<float, n_in, f>, ufunc_loop<double, n_in, f>};
  static void* data[] = {nullptr, nullptr};
  static char types[2 * (n_in + 1)];
  for (std::size_t i = 0; i <= n_in; ++i) {
    types[i] = NPY_FLOAT;
    types[n_in + 1 + i] = NPY_DOUBLE;
  }
  return {loops, data, types, 2, static_cast<int>(n_in)};
}

}  // namespace manyclass

// The loops of the overloaded function manyclass::name of n_in arguments.
#define MANYCLASS_UFUNC(name, n_in) (manyclass::ufunc_of<n_in, [](auto... x) { return manyclass::name(x...); }>())
