// log sum_k e^{w_k.q} over the rows of an index, from the rows found for a query and a sample of the others.
//
// Let H be the Q rows found and T t rows drawn uniformly without replacement from the other M = K - Q. Then
//
//   Z^ = sum_H e^z + (M / t) sum_T e^z    has mean Z whatever H is, and
//   Var Z^ = M^2 (1 - t / M) s^2 / t,     s^2 being the variance of e^z among the others (divisor M - 1), which the
//                                         variance within T (divisor t - 1) estimates without bias.
//
// log Z^ has the standard deviation sqrt(Var Z^) / Z and the bias -Var Z^ / 2 Z^2, to first order in each.
//
// Neighbouring queries share one sample of all rows, whose rows are then read once; what it holds of H is dropped for
// that query, and given t the rest is such a draw. Errors of neighbours are therefore correlated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/search/cluster_index.hpp"

namespace manyclass {

// The rows found for each query, `width` places each: distinct ids with their scores, best first, -1 where there are
// fewer.
struct Found {
  std::span<const Offset> ids;
  std::span<const float> scores;
  std::size_t width;
};

struct TailSample {
  std::size_t size;  // at most K, in which case all rows are scored; else at least width + 2, so that t > 1
  std::uint64_t seed;
  std::uint64_t first;  // number of the first query, a multiple of queries_per_sample
};

inline constexpr std::size_t queries_per_sample = 64;

// Query i gets values[i] = log Z^ - z, z being the score of the first row that was found for it, 0 where none was, and
// errors[i], the estimated standard deviation: 0 where all rows were scored. Scores may be so large that the logarithm
// of how many share them would be lost in log Z^ itself.
void log_normalizers(const ClusterIndex& index, const Queries& queries, const Found& found, const TailSample& sample,
                     int n_threads, Isa isa, std::span<double> values, std::span<double> errors);

}  // namespace manyclass
