// Polynomials with constant coefficients as straight-line arithmetic.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

namespace manyclass {

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule. The template unrolls it. GCC would leave a loop standing inside the
// loop over x that is to be vectorised.
template <class Real, std::size_t n>
inline Real polynomial(Real x, const std::array<Real, n>& c) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    Real sum = c[n - 1];
    ((sum = sum * x + c[n - 2 - I]), ...);
    return sum;
  }(std::make_index_sequence<n - 1>());
}

}  // namespace manyclass
