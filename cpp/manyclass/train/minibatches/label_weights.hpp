// The weights of a training with labels: rows of classes over phi or, for sparse points that are their own features,
// rows of features. With the latter a visit reads and moves what its points touch: O(nnz K) at most, and no D.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "manyclass/core/rng.hpp"
#include "manyclass/model/linear.hpp"
#include "manyclass/weights/feature_rows.hpp"
#include "manyclass/weights/vector_rows.hpp"

namespace manyclass {

// A point on its way through a batch.
struct LabelPoint {
  Index id = 0;
  Rng rng{{}, 0};        // the point's own, or with Settings::share_classes the same for all points of the batch
  std::span<float> phi;  // none where the weights are rows of features
  SparseRow x;           // of those
  double phi_sq = 0;
  std::span<const Index> labels;  // sorted, distinct
  double weight = 1;              // of its loss; the loop's to multiply by
  double* local = nullptr;        // what it carries between visits, where steps are those of the double sum
  int visits = 0;                 // how often it was visited before
};

// Rows of features, with intercepts, and Adagrad's sums: a number for each class, or none.
struct FeatureWeights {
  Linear<FeatureRows<float>> model;
  std::span<float> squares;
  std::size_t n_classes = 0;

  bool learns_intercepts() const { return !model.intercept.empty(); }

  // Moves class k along -g by a step of size eta, where g_sq = |g|^2 counts the intercept's slope, too.
  void descend(Index k, SparseRow g, float of_intercept, double g_sq, double eta) {
    const float step = length_of_step(squares, k, g_sq, eta);
    model.rows.add(g, k, -step);
    if (learns_intercepts()) model.intercept[static_cast<std::size_t>(k)] -= step * of_intercept;
  }

  // Writes by what a feature's weights are multiplied in the proximal step of size eta of |w|^2 / 2, for each class.
  void write_shrinks(std::span<float> shrinks, double eta) const {
    for (std::size_t k = 0; k < shrinks.size(); ++k) {
      shrinks[k] = 1 / (1 + length_of_step(squares, static_cast<Index>(k), 0, eta));
    }
  }
};

class LabelWeights {
 public:
  LabelWeights() = default;
  LabelWeights(const VectorRows& rows) : rows_(rows) {}
  explicit LabelWeights(const FeatureWeights& features) : features_(features) {}

  bool by_feature() const { return features_.has_value(); }
  const VectorRows& rows() const { return rows_; }
  const FeatureWeights& features() const { return *features_; }
  std::size_t size() const { return by_feature() ? features_->n_classes : rows_.size(); }
  std::size_t width() const { return rows_.width(); }  // of phi
  // Numbers that the score of one class reads.
  std::size_t work(const LabelPoint& point) const { return by_feature() ? point.x.indices.size() : width(); }

  float dot(Index k, const LabelPoint& point, Isa isa) const {
    return by_feature() ? features_->model.score(point.x, k) : rows_.dot(k, point.phi, isa);
  }

  void scores(std::span<const Index> ids, const LabelPoint& point, Isa isa, std::span<float> z) const {
    if (by_feature()) {
      features_->model.scores(point.x, ids, z);
    } else {
      rows_.scores(ids, point.phi, isa, z);
    }
  }

 private:
  VectorRows rows_;
  std::optional<FeatureWeights> features_;
};

}  // namespace manyclass
