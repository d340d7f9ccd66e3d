// What one thread of this machine can do at most: the bounds of bench_roofline.py, called through ctypes.
#include <cmath>
#include <cstdint>

#include "manyclass/core/simd.hpp"
#include "manyclass/math/elementary.hpp"

namespace {

using manyclass::best_isa;
using manyclass::run_with;

constexpr int line = 16;  // floats of a cache line

// A vector of 64 bytes; the compiler makes two of it where registers are half as wide.
template <class Real>
using Vector __attribute__((vector_size(64))) = Real;

// Twelve chains, so that a unit with a latency of four cycles, of which there are two, never waits.
template <class Real>
double multiply_add(std::int64_t n_rounds) {
  Real total = 0;
  run_with(best_isa(), [&] {
    constexpr int chains = 12;
    Vector<Real> sums[chains];
    const Vector<Real> a = Vector<Real>{} + static_cast<Real>(0.999), b = Vector<Real>{} + static_cast<Real>(0.001);
    for (auto& sum : sums) sum = a;
    for (std::int64_t i = 0; i < n_rounds; ++i) {
#pragma GCC unroll 12
      for (auto& sum : sums) sum = sum * a + b;
    }
    for (const auto& sum : sums) total += sum[0];
  });
  return static_cast<double>(total);
}

}  // namespace

extern "C" {

// Adds one to each float of n_visits lines drawn at random, each prefetched 32 visits ahead.
void update_lines(float* lines, std::int64_t n_lines, std::int64_t n_visits, std::uint64_t seed) {
  run_with(best_isa(), [=] {
    constexpr int ahead = 32;
    std::int64_t queue[ahead] = {};
    std::uint64_t state = seed;
    for (std::int64_t visit = 0; visit < n_visits + ahead; ++visit) {
      auto& place = queue[visit % ahead];
      if (visit >= ahead) {
        float* at = lines + place * line;
        for (int i = 0; i < line; ++i) at[i] += 1.0F;
      }
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX generator
      place = static_cast<std::int64_t>((state >> 32U) * static_cast<std::uint64_t>(n_lines) >> 32U);
      __builtin_prefetch(lines + place * line, 1);
    }
  });
}

// Reads n floats, n a multiple of 64.
double read_all(const float* x, std::int64_t n) {
  Vector<float> sums[4] = {};
  run_with(best_isa(), [&] {
    for (std::int64_t i = 0; i < n; i += 4 * line) {
      for (int j = 0; j < 4; ++j) sums[j] += *reinterpret_cast<const Vector<float>*>(x + i + line * j);
    }
  });
  return static_cast<double>((sums[0] + sums[1] + sums[2] + sums[3])[0]);
}

// Reads and writes n floats.
void update_all(float* x, std::int64_t n) {
  run_with(best_isa(), [=] {
    for (std::int64_t i = 0; i < n; ++i) x[i] += 1.0F;
  });
}

// In each visit reads some rows of a table drawn at random, each of n floats, a multiple of 64; then, if it updates,
// reads and writes the same rows.
double visit_rows(float* table, std::int64_t n_rows, std::int64_t n, std::int64_t rows_a_visit, std::int64_t n_visits,
                  std::int64_t updates) {
  Vector<float> sums[4] = {};
  run_with(best_isa(), [&] {
    constexpr int most = 64;
    float* rows[most] = {};
    std::uint64_t state = 1;
    for (std::int64_t visit = 0; visit < n_visits; ++visit) {
      for (std::int64_t r = 0; r < rows_a_visit; ++r) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        rows[r % most] =
            table + static_cast<std::int64_t>((state >> 32U) * static_cast<std::uint64_t>(n_rows) >> 32U) * n;
      }
      for (std::int64_t r = 0; r < rows_a_visit; ++r) {
        const float* row = rows[r % most];
        for (std::int64_t i = 0; i < n; i += 4 * line) {
          for (int j = 0; j < 4; ++j) sums[j] += *reinterpret_cast<const Vector<float>*>(row + i + line * j);
        }
      }
      for (std::int64_t r = 0; updates != 0 && r < rows_a_visit; ++r) {
        float* row = rows[r % most];
        for (std::int64_t i = 0; i < n; ++i) row[i] += 1.0F;
      }
    }
  });
  return static_cast<double>((sums[0] + sums[1] + sums[2] + sums[3])[0]);
}

// Two operations in each of 16 floats (8 doubles) of 12 vectors, n_rounds times.
double multiply_add_floats(std::int64_t n_rounds) { return multiply_add<float>(n_rounds); }
double multiply_add_doubles(std::int64_t n_rounds) { return multiply_add<double>(n_rounds); }

// The package's own exponential of n floats that stay in the first cache, n_rounds times.
void exponentials(const float* x, float* out, std::int64_t n, std::int64_t n_rounds) {
  run_with(best_isa(), [=] {
    for (std::int64_t round = 0; round < n_rounds; ++round) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = manyclass::vec::exp(x[i]);
      asm volatile("" : : "r"(out) : "memory");  // so that no round is left out
    }
  });
}

}  // extern "C"
