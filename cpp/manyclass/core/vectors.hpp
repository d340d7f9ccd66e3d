// Vectors of the compiler, as wide as the registers of the instruction set that a kernel is compiled for.
//
// A plain loop over sixteen floats of an array often stays scalar, and GCC 12 keeps a vector that is wider than the
// registers in memory: a broadcast to 64 bytes is sixteen stores under AVX2, and running sums are stored and loaded at
// each addition. So kernels that hold sums are templates over the bytes of a vector, and with_vectors() chooses the
// bytes once for a call.
//
// Vectors are passed by reference: how they would be returned depends on the instruction set.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "manyclass/core/simd.hpp"

namespace manyclass {

template <class Value, std::size_t Bytes>
struct VectorOf {
  typedef Value Type __attribute__((vector_size(Bytes)));  // GCC 12 ignores the attribute in a `using`
};
template <class Value, std::size_t Bytes>
using Vector = typename VectorOf<Value, Bytes>::Type;

inline constexpr std::size_t line_bytes = 64;  // of a cache line

// Registers for vectors of these bytes: AVX-512 and ARM's NEON have 32, AVX2 and SSE2 have 16.
#ifdef __aarch64__
template <std::size_t Bytes>
inline constexpr std::size_t n_registers = 32;
#else
template <std::size_t Bytes>
inline constexpr std::size_t n_registers = Bytes == 64 ? 32 : 16;
#endif

// To stand before a loop over the few numbers of an array: Clang 14 would unroll it before it could become vectors.
#ifdef __clang__
#define MANYCLASS_AS_VECTORS _Pragma("clang loop vectorize(enable) unroll(disable)")
#else
#define MANYCLASS_AS_VECTORS
#endif

// Makes of each number its square root. Neither compiler has a root of vectors: a loop becomes one.
template <std::size_t Bytes>
inline void to_roots(Vector<float, Bytes>& x) {
  constexpr std::size_t lanes = Bytes / sizeof(float);
  alignas(Bytes) float squares[lanes], roots[lanes];
  std::memcpy(squares, &x, Bytes);
  MANYCLASS_AS_VECTORS
  for (std::size_t l = 0; l < lanes; ++l) roots[l] = std::sqrt(squares[l]);
  std::memcpy(&x, roots, Bytes);
}

// Calls f.operator()<Bytes>(), where Bytes is the width of a register. In a clone of run_with that passes its own
// instruction set the choice is made by the compiler.
template <class F>
inline void with_vectors([[maybe_unused]] Isa isa, const F& f) {
#ifdef MANYCLASS_AVX2
  if (isa == Isa::avx512) return f.template operator()<64>();
  if (isa == Isa::avx2) return f.template operator()<32>();
#endif
  f.template operator()<16>();
}

}  // namespace manyclass
