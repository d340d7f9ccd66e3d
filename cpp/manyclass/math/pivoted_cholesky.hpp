// The Cholesky factor of a Gram matrix whose points may be dependent: X X' = L L'.
//
// L has a column for each independent point.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace manyclass {

// V in X = L V' has orthonormal columns. V a = X_p'c with c from L_p'c = a, where p are the independent points.
class PivotedCholesky {
 public:
  std::size_t rank() const { return pivots_.size(); }
  const std::vector<double>& columns() const { return columns_; }  // L, one column after the other

  // The next pivot is the point of which the largest share of its square is outside the span so far.
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

  // Returns c, which solves L_p'c = a on the pivots and is 0 on the other points.
  void solve_transposed(const double* a, std::span<double> c) const {
    std::fill(c.begin(), c.end(), 0.0);
    for (std::size_t l = rank(); l-- > 0;) {
      double rest = a[l];
      for (std::size_t j = l + 1; j < rank(); ++j) rest -= columns_[l * n_ + pivots_[j]] * c[pivots_[j]];
      c[pivots_[l]] = rest / columns_[l * n_ + pivots_[l]];
    }
  }

 private:
  // A point counts as dependent if at most this share of its square is outside the span of others. Features in single
  // precision that should be dependent are so to about 2^-48.
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
  std::vector<std::size_t> pivots_;  // the independent points
  std::vector<double> columns_, left_;
};

}  // namespace manyclass
