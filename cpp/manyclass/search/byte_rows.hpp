// All classes of points by an 8-bit copy of their vectors: the k best exactly, the normaliser nearly.
//
// A row of W is (w_k, b_k, 0 ...), a query (q, 1, 0 ...). The copy has w_k as s c (codes.hpp); b_k, which is often much
// larger than what stands before it, is kept as it is. The query is t b, its code, or t b + t' b' with that of what the
// first one leaves, which takes twice the products:
//
//   |w.q - s t c.b| <= error(w) |t b| + |w| error(q), errors of some .7 % of norms, error(q) about 2^-14 |q| by two.
//
// Rows whose bound reaches the k-th best are scored again in full: the k best, and their scores, are those of a pass
// over W, for little more than a quarter of its memory traffic and of its products. Milliseconds:
// bench/README.md.
//
// The others count as their codes say. Rounding errors of different rows have nothing to do with each other: that of a
// score has a standard deviation of error(w) |q| / sqrt(D), and log Z one of the root of sum (p_k of these)^2. That of
// a query is shared: the scores of all rows err by w.(q - t b), of a standard deviation |w| error(q) / sqrt(D), and log
// Z by their mean, for which sum p_k |w_k| error(q) / sqrt(D) is a bound. Two codes make nothing of it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"
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
  // The largest of what bounds the errors of the scores of some rows.
  struct Bounds {
    float error = 0, norm = 0, intercept = 0;  // |w - its code|, |w|, |b|
  };

  // Columns from n_coded on are 0 but for the first of them, which is b where has_intercept. Throws
  // std::invalid_argument where rows have numbers that are not finite or are too large.
  ByteRows(const RowsView& rows, std::size_t n_rows, std::size_t n_coded, bool has_intercept, int n_threads, Isa isa);

  std::size_t n_rows() const { return block_.size(); }
  std::size_t n_features() const { return rows_.n_features; }

  // Row i of `ids` and `scores` (n x k): the k best classes of query i, best first, equal scores by id; k in [1, K].
  // normalizers[i] goes with it, if it is not empty, by two codes of the query where `twice` says so. A query is as
  // long as a row, and 1 in the column of b. Returns false where one is not finite or too large; what is written then
  // says nothing. An answer depends on its query alone.
  bool best(const DenseView& queries, std::size_t k, bool twice, int n_threads, Isa isa, std::span<Index> ids,
            std::span<float> scores, std::span<Normalizer> normalizers) const;

 private:
  template <std::size_t Codes, bool weighs>
  friend class Pass;

  RowsView rows_;
  std::size_t n_coded_;
  CodeBlock block_;
  std::vector<float> scales_, intercepts_;  // up to whole passes
  std::vector<Bounds> largest_;             // by pass
};

}  // namespace manyclass
