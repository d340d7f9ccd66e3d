// Scores and gradients of points over classes that they have in common: sixteen points at a time, so that each row of
// a class is read once for them.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/math/sums.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/train/minibatches/listed_loss.hpp"
#include "manyclass/weights/row_products.hpp"

namespace manyclass {

class CommonScores {
 public:
  // Scores of at most scored_points points by the classes named in `ids`; for run_with.
  void score(const LabelWeights& weights, std::span<const Index> ids, std::span<const LabelPoint> points, Isa isa) {
    n_ = ids.size();
    scores_.resize(scored_points * n_);
    if (weights.by_feature()) {
      score_by_feature(weights.features(), ids, points);
      return;
    }
    const VectorRows& classes = weights.rows();
    const std::size_t width = classes.width();
    columns_.assign(width * scored_points, 0.0F);
    for (std::size_t p = 0; p < points.size(); ++p) {
      for (std::size_t j = 0; j < width; ++j) columns_[j * scored_points + p] = points[p].phi[j];
    }
    float tile[scored_rows][scored_points];
    const auto score_from = [&]<std::size_t Rows>(std::size_t c) {
      std::array<const float*, Rows> rows;
      for (std::size_t r = 0; r < Rows; ++r) rows[r] = classes[ids[c + r]].data();
      score_rows<Rows>(isa, rows, width, columns_.data(), tile);
      for (std::size_t p = 0; p < points.size(); ++p) {
        for (std::size_t r = 0; r < Rows; ++r) scores_[p * n_ + c + r] = tile[r][p];
      }
    };
    std::size_t c = 0;
    for (; c + scored_rows <= n_; c += scored_rows) score_from.template operator()<scored_rows>(c);
    for (; c < n_; ++c) score_from.template operator()<1>(c);
  }

  // Those of the p-th point.
  std::span<float> of(std::size_t p) { return std::span(scores_).subspan(p * n_, n_); }

  // The gradient from the scores z of the classes in common, which it changes; `places` are those of the point's labels
  // among them, and no place, n, for a label that is not. `alpha` are the weights of the classes for a step of the
  // double sum.
  void gradient(const SourceSettings& settings, const LabelPoint& point, double eta, std::span<float> z,
                std::span<const std::size_t> places, std::span<const float> alpha, ClassGradient& out) {
    out.clear();
    positives_.resize(places.size());
    positive_g_.resize(places.size());
    taken_.clear();
    run_with(settings.isa, [&](Isa isa) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const bool in_common = places[i] < n_;
        positives_[i] = in_common ? z[places[i]] : settings.classes.dot(point.labels[i], point, isa);
        if (in_common) taken_.push_back(places[i]);
      }
      out.largest_score = std::max(largest_of(z), largest_of(positives_));
    });
    if (!(out.largest_score <= static_cast<float>(runaway))) return;
    if (settings.step != nullptr) {
      alpha_.assign(alpha.begin(), alpha.end());
      for (const std::size_t place : taken_) alpha_[place] = 0;
      out.common.resize(n_);
      LabelGradient gradient{positive_g_, out.common};
      out.loss = step_gradient(settings, point, eta, z, alpha_, positives_, gradient);
    } else {
      gradient_of_loss(settings, point, eta, z, out);
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] < n_) {
        out.common[places[i]] = positive_g_[i];
      } else if (positive_g_[i] != 0) {
        out.ids.push_back(point.labels[i]);
        out.g.push_back(positive_g_[i]);
      }
    }
  }

 private:
  void score_by_feature(const FeatureWeights& weights, std::span<const Index> ids, std::span<const LabelPoint> points) {
    with_run(ids, [&](const auto& classes) {
      for (std::size_t p = 0; p < points.size(); ++p) weights.model.scores(points[p].x, classes, of(p));
    });
  }

  void gradient_of_loss(const SourceSettings& settings, const LabelPoint& point, double eta, std::span<float> z,
                        ClassGradient& out) {
    // The labels' scores change places with the last ones, and the gradients back.
    std::ranges::sort(taken_);
    const std::size_t n_wrong = n_ - taken_.size();
    out.common.resize(n_);
    const std::span<float> g(out.common);
    for (std::size_t i = taken_.size(); i-- > 0;) std::swap(z[taken_[i]], z[n_wrong + i]);
    LabelGradient gradient{positive_g_, g.first(n_wrong)};
    const LabelScores scores{positives_, z.first(n_wrong)};
    out.loss = value_of(loss_of_step(settings, eta, point), scores, gradient, memory_, settings.isa);
    for (std::size_t i = 0; i < taken_.size(); ++i) std::swap(g[taken_[i]], g[n_wrong + i]);
  }

  std::size_t n_ = 0;
  std::vector<float> columns_;  // width x scored_points
  std::vector<float> scores_;   // scored_points x n
  std::vector<float> positives_, positive_g_;
  std::vector<std::size_t> taken_;  // places of labels in common
  std::vector<float> alpha_;        // of one point, whose labels have 0
  LossMemory memory_;
};

}  // namespace manyclass
