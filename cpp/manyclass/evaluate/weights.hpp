// The weights of a model, whatever their kind and storage, and the questions put to them.
//
//   z_k = g_k (w_k.phi + sum_j x_j s_jk) + b_k
//
// The first term is there where there are rows: of classes, over phi, which is x or what a feature map makes of it, or
// of features, over x itself. The second one is there where there are weights s_jk on pairs of a feature and a class.
// Both are stored as floats, halves, or bytes with a scale for each row (weights/coded_rows.hpp). Counts of the pairs
// may be mixed in (evaluate/count_mixture.hpp): scores are then those whose softmax is the mixture.
#pragma once

#include <span>
#include <variant>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/evaluate/count_mixture.hpp"
#include "manyclass/weights/coded_rows.hpp"
#include "manyclass/weights/pair_rows.hpp"

namespace manyclass {

// Points as some weights read them: x where they stand by feature or on pairs, phi where they stand by class, and x
// beside phi where there are both.
using AnyPoints = std::variant<CsrView, DenseView, PairedView>;

inline Index n_rows(const AnyPoints& points) {
  return std::visit([](const auto& some) { return some.n_rows(); }, points);
}

// Some of the points.
AnyPoints rows_from(const AnyPoints& points, std::size_t begin, std::size_t n);

// What is the same in all questions.
struct Asked {
  std::span<const float> scale;  // g, one number for each class; empty: all are 1
  int n_threads;
  Isa isa;
};

class Weights {
 public:
  // No values: the term is not there. `coded` weights are read by the kernels of weights in fewer bits, also where they
  // are floats. Of the counts, the support is that of the values. Throws std::invalid_argument where the arrays do not
  // fit each other.
  Weights(const AnyCodes& rows, bool by_feature, std::span<const Offset> indptr, const AnyIds& classes,
          const AnyCodes& values, std::span<const float> intercept, Index n_features, bool coded,
          const CountMixture& counts);

  Index n_classes() const { return static_cast<Index>(intercept_.size()); }

  // What points must be: a sparse x, a dense phi, or both.
  bool reads_x() const { return by_feature_ || !indptr_.empty(); }
  bool reads_phi() const { return width_ > 0 && !by_feature_; }

  const CountMixture& counts() const { return counts_; }

  // What a unit of feature j adds to the score of class k by itself: its weight in the rows of features or on the pair.
  double feature_weight(Index j, Index k) const;
  // The row of class k over phi, where there are rows of classes; `out` has as many numbers as it.
  void class_row(Index k, std::span<double> out) const;

  // See evaluate/log_loss.hpp and evaluate/top_k.hpp. All throw std::invalid_argument where the points are not what the
  // weights read.
  void scores(const AnyPoints& points, const Asked& asked, std::span<float> out) const;
  void log_losses(const AnyPoints& points, std::span<const Index> labels, const Asked& asked, std::span<double> losses,
                  std::span<Index> ranks) const;
  void log_normalizers(const AnyPoints& points, const Asked& asked, std::span<double> out) const;
  void top_k(const AnyPoints& points, Index k, const Asked& asked, std::span<Index> classes,
             std::span<float> log_probabilities) const;
  void top_wrong(const AnyPoints& points, std::span<const Index> labels, const Asked& asked,
                 std::span<Index> classes) const;

 private:
  // Calls f(points, model).
  template <class F>
  void ask(const AnyPoints& points, const Asked& asked, const F& f) const;

  AnyCodes rows_;
  std::size_t width_;  // of the rows
  bool by_feature_;
  std::span<const Offset> indptr_;
  AnyIds classes_;
  AnyCodes values_;
  std::span<const float> intercept_;
  Index n_features_;
  bool coded_;
  CountMixture counts_;
};

}  // namespace manyclass
