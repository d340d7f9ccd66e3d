// The Cholesky factor of a Gram matrix whose points may be dependent: X X' = L L', L with a column for each independent
// point.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace manyclass {

// X = L V' then has orthonormal columns in V, and V a = X_p'c with c from L_p'c = a, p being the independent points.
class PivotedCholesky {
 public:
  std::size_t rank() const { return pivots_.size(); }
  const std::vector<double>& columns() const { return columns_; }  // L, a column after the other

  // The next pivot is the point with the largest part outside the span so far, as a share of its own square.
  void factorise(std::span<const double> gram, std::size_t n) {
    n_ = n;
    pivots_.clear();
    columns_.clear();
    left_.resize(n);
    for (std::size_t i = 0; i < n; ++i) left_[i] = gram[i * n + i];
    while (rank() < n) {
      std::size_t best = n;
      double most = dependent;
      for (std::size_t i = 0; i < n; ++i) {
        const double square = gram[i * n + i];
        if (square > 0 && left_[i] > most * square) {
          best = i;
          most = left_[i] / square;
        }
      }
      if (best == n) break;
      add_column(gram, best);
    }
  }

  // c with L_p'c = a on the pivots, 0 on the other points.
  void solve_transposed(const double* a, std::span<double> c) const {
    std::fill(c.begin(), c.end(), 0.0);
    for (std::size_t l = rank(); l-- > 0;) {
      double rest = a[l];
      for (std::size_t j = l + 1; j < rank(); ++j) rest -= columns_[l * n_ + pivots_[j]] * c[pivots_[j]];
      c[pivots_[l]] = rest / columns_[l * n_ + pivots_[l]];
    }
  }

 private:
  // A point is taken for dependent if at most this share of its square is outside the span of others: features in
  // single precision that should be dependent are so to about 2^-48.
  static constexpr double dependent = 0x1p-40;

  void add_column(std::span<const double> gram, std::size_t pivot) {
    const std::size_t r = rank();
    const double root = std::sqrt(left_[pivot]);
    columns_.resize((r + 1) * n_);
    for (std::size_t i = 0; i < n_; ++i) {
      double rest = gram[i * n_ + pivot];
      for (std::size_t l = 0; l < r; ++l) rest -= columns_[l * n_ + i] * columns_[l * n_ + pivot];
      columns_[r * n_ + i] = i == pivot ? root : rest / root;
    }
    for (const std::size_t earlier : pivots_) columns_[r * n_ + earlier] = 0;
    for (std::size_t i = 0; i < n_; ++i) left_[i] -= columns_[r * n_ + i] * columns_[r * n_ + i];
    pivots_.push_back(pivot);
    left_[pivot] = 0;
  }

  std::size_t n_ = 0;
  std::vector<std::size_t> pivots_;  // independent points
  std::vector<double> columns_, left_;
};

}  // namespace manyclass
