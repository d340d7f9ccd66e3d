// All classes of one point by an 8-bit copy of their vectors: the k best exactly, the normaliser nearly.
//
// A row of W is (w_k, b_k, 0 ...), a query (q, 1, 0 ...). The copy has w_k as s c (codes.hpp); b_k, which is often much
// larger than what stands before it, is kept as it is. The query is t b + t' b', the code of its vector and that of what
// the first one leaves. So nearly all of the error is that of c:
//
//   |w.q - s c.(t b + t' b')| <= error(w) (|q| + error(q)) + |w| error(q),    error(q) about 2^-14 |q|.
//
// Rows whose bound reaches the k-th best are scored again in full: the k best, and their scores, are those of a pass
// over W, for little more than a quarter of its memory traffic. 26,000 classes of 128 numbers, one thread: see
// bench/decisions.md.
//
// The others count as their codes say. Rounding errors of different rows have nothing to do with each other: that of a
// score has a standard deviation of error(w) |q| / sqrt(D), and log Z one of the root of sum (p_k of these)^2.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/types.hpp"
#include "manyclass/search/codes.hpp"
#include "manyclass/search/exact.hpp"

namespace manyclass {

struct Normalizer {
  double log_z;  // nats, less the score of the best class, in which it would be lost where that is huge
  double std;    // of log_z, without what rounding in single precision adds, 1e-6 or so
};

// Views the rows, and has a copy of n_coded bytes and 20 more for each. Immutable, so that threads may share it.
class ByteRows {
 public:
  // Columns from n_coded on are 0 but for the first of them, which is b where has_intercept. Throws
  // std::invalid_argument where rows have numbers that are not finite or are too large.
  ByteRows(const RowsView& rows, std::size_t n_rows, std::size_t n_coded, bool has_intercept, int n_threads, Isa isa);

  std::size_t n_rows() const { return block_.size(); }
  std::size_t n_features() const { return rows_.n_features; }

  // Writes the ids and scores of the best classes, as many as there is room for, best first, equal scores by id. q is as
  // long as a row, and 1 in the column of b. Nothing where q is not finite or too large.
  std::optional<Normalizer> best(DenseRow q, Isa isa, std::span<Index> ids, std::span<float> scores) const;

 private:
  RowsView rows_;
  std::size_t n_coded_;
  CodeBlock block_;
  std::vector<float> intercepts_;  // 0 up to whole groups
  std::vector<float> errors_;      // of the codes
};

}  // namespace manyclass
