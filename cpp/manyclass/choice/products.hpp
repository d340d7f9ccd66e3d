// Sums over rows of products of two small matrices in double precision, in blocks that stay in the caches.
#pragma once

#include <algorithm>
#include <cstddef>

namespace manyclass {

// sum_k a_k b_k in lanes that the compiler may vectorise.
inline double dot(const double* a, const double* b, std::size_t n) {
  constexpr std::size_t lanes = 16;
  double sums[lanes] = {};
  std::size_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += a[k + l] * b[k + l];
  }
  double sum = 0;
  for (; k < n; ++k) sum += a[k] * b[k];
  for (const double part : sums) sum += part;
  return sum;
}

// The left factor A of sums over i: A(i, c) = values[i * down + c * across].
struct LeftFactor {
  const double* values;
  std::size_t down, across;

  double operator()(std::size_t i, std::size_t c) const { return values[i * down + c * across]; }
};

// out[c][k] += sum_i A(i, c) B[i * b + k] of `n_sums` rows of sums that begin at c, over rows of B four at a time, by
// which the sums are read and written a quarter as often.
template <std::size_t n_sums>
inline void add_to_rows(const LeftFactor& A, std::size_t c, const double* __restrict B, std::size_t b,
                        std::size_t begin, std::size_t end, std::size_t width, double* __restrict out) {
  std::size_t i = begin;
  for (; i + 4 <= end; i += 4) {
    double a[n_sums][4];
    for (std::size_t s = 0; s < n_sums; ++s) {
      for (std::size_t l = 0; l < 4; ++l) a[s][l] = A(i + l, c + s);
    }
    const double *B0 = B + i * b, *B1 = B0 + b, *B2 = B1 + b, *B3 = B2 + b;
    for (std::size_t k = 0; k < width; ++k) {
      for (std::size_t s = 0; s < n_sums; ++s) {
        out[s * b + k] += (a[s][0] * B0[k] + a[s][1] * B1[k]) + (a[s][2] * B2[k] + a[s][3] * B3[k]);
      }
    }
  }
  for (; i < end; ++i) {
    for (std::size_t s = 0; s < n_sums; ++s) {
      const double a = A(i, c + s);
      for (std::size_t k = 0; k < width; ++k) out[s * b + k] += a * B[i * b + k];
    }
  }
}

// out[c * b + k] += sum_i A(i, c) B[i * b + k] for c in [begin, end), i < n and k < b.
inline void add_block(const LeftFactor& A, const double* B, std::size_t n, std::size_t b, std::size_t begin,
                      std::size_t end, double* out) {
  constexpr std::size_t rows = 64, columns = 512;  // of B: 256 kB, which the second cache has
  for (std::size_t k = 0; k < b; k += columns) {
    const std::size_t width = std::min(columns, b - k);
    for (std::size_t i = 0; i < n; i += rows) {
      const std::size_t last = std::min(n, i + rows);
      std::size_t c = begin;
      for (; c + 2 <= end; c += 2) add_to_rows<2>(A, c, B + k, b, i, last, width, out + c * b + k);
      for (; c < end; ++c) add_to_rows<1>(A, c, B + k, b, i, last, width, out + c * b + k);
    }
  }
}

}  // namespace manyclass
