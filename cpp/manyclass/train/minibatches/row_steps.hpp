// The steps of a batch: each row moves once, along the sum of what the batch's points ask of it.
//
// With Adagrad that is the rule for minibatches: the row's sum of squares grows by |G|^2, G being the batch's gradient.
// Visit by visit instead, the points of a batch, which see the same weights and often want the same, would together
// move a row several times as far as one may (20,000 faces: P@1 after two passes .81 instead of .95).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/train/minibatches/label_weights.hpp"
#include "manyclass/weights/row_products.hpp"

namespace manyclass {

// Vectors with factors, those that are not zero, for a sum: as many as stay in the nearest cache.
class Factors {
 public:
  static constexpr std::size_t most = 32;

  std::size_t size() const { return n_; }
  bool full() const { return n_ == most; }
  void clear() { n_ = 0; }
  void add(float factor, const float* vector) {
    factors_[n_] = factor;
    vectors_[n_] = vector;
    n_ += factor != 0;
  }
  void add_to(std::span<float> sum, Isa isa) const {
    add_combination(isa, sum.data(), std::span(factors_).first(n_), std::span(vectors_).first(n_), sum.size());
  }

 private:
  std::array<float, most + 1> factors_;  // a zero is written and then overwritten
  std::array<const float*, most + 1> vectors_;
  std::size_t n_ = 0;
};

// The gradient of one row, as a sum.
class RowGradient {
 public:
  using Rows = VectorRows;
  using Vector = const float*;

  explicit RowGradient(std::size_t width) : sum_(width) {}

  void add(float factor, const float* vector, Isa isa) {
    if (factor == 0) return;  // flushing for it would leave none, by which a row that nothing moves is known
    if (some_.full()) flush(isa);
    some_.add(factor, vector);
  }
  // Moves the row by a step of size eta, if anything was added, and starts again.
  void descend(const VectorRows& rows, Index k, double eta, Isa isa) {
    if (some_.size() == 0) return;  // a full one is flushed only when more comes
    flush(isa);
    rows.descend(k, sum_, squared_norm(sum_), eta);
    std::ranges::fill(sum_, 0.0F);
  }

 private:
  void flush(Isa isa) {
    some_.add_to(sum_, isa);
    some_.clear();
  }

  Factors some_;
  std::vector<float> sum_;
};

// The gradient of one class of feature-major weights, as a sum over sparse points.
class SparseGradient {
 public:
  using Rows = FeatureWeights;
  using Vector = SparseRow;

  explicit SparseGradient(std::size_t n_features) : sums_(n_features), is_met_(n_features) {}

  void add(float factor, SparseRow x, Isa) {
    of_intercept_ += factor;
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const auto j = static_cast<std::size_t>(x.indices[n]);
      if (is_met_[j] == 0) met_.push_back(x.indices[n]);
      is_met_[j] = 1;
      sums_[j] += factor * x.values[n];
    }
  }
  void descend(Rows& weights, Index k, double eta, Isa) {
    values_.clear();
    double sq =
        weights.learns_intercepts() ? static_cast<double>(of_intercept_) * static_cast<double>(of_intercept_) : 0;
    for (const Index met : met_) {
      const auto j = static_cast<std::size_t>(met);
      values_.push_back(sums_[j]);
      sq += static_cast<double>(sums_[j]) * static_cast<double>(sums_[j]);
      sums_[j] = 0;
      is_met_[j] = 0;
    }
    weights.descend(k, {met_, values_}, of_intercept_, sq, eta);
    met_.clear();
    of_intercept_ = 0;
  }

 private:
  std::vector<float> sums_;            // of each feature
  std::vector<unsigned char> is_met_;  // of each, 1 or 0
  std::vector<Index> met_;
  std::vector<float> values_;
  float of_intercept_ = 0;
};

// Gradients of rows, or classes, that come in any order, point by point.
template <class Gradient>
class RowSteps {
 public:
  using Rows = typename Gradient::Rows;
  using Vector = typename Gradient::Vector;

  RowSteps(std::size_t n_rows, std::size_t width) : chains_(n_rows), gradient_(width) {}

  void add(Index row, float factor, Vector vector) {
    if (factor == 0) return;
    Chain& chain = chains_[static_cast<std::size_t>(row)];
    const std::size_t term = terms_.size();
    if (chain.first == none) {
      chain.first = term;
      rows_.push_back(row);
    } else {
      terms_[chain.last].next = term;
    }
    chain.last = term;
    terms_.push_back({factor, vector, none});
  }

  // Moves the rows and forgets what was added.
  void descend(Rows rows, double eta, Isa isa) {
    constexpr std::size_t ahead = 4;  // rows on their way from memory: they come in no order
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if constexpr (requires { rows.prefetch(rows_[r]); }) {
        if (r + ahead < rows_.size()) rows.prefetch(rows_[r + ahead]);
      }
      const Index row = rows_[r];
      Chain& chain = chains_[static_cast<std::size_t>(row)];
      for (std::size_t term = chain.first; term != none; term = terms_[term].next) {
        gradient_.add(terms_[term].factor, terms_[term].vector, isa);
      }
      gradient_.descend(rows, row, eta, isa);
      chain.first = none;
    }
    rows_.clear();
    terms_.clear();
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct Term {
    float factor;
    Vector vector;
    std::size_t next;  // of the same row
  };
  struct Chain {
    std::size_t first = none;
    std::size_t last = none;
  };

  std::vector<Chain> chains_;  // by row
  std::vector<Term> terms_;
  std::vector<Index> rows_;  // in the order of their first terms
  Gradient gradient_;
};

}  // namespace manyclass
