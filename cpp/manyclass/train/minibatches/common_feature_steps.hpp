// Steps of a batch of sparse points on feature-major weights, for classes that their gradients have in common: the
// gradient of each feature that the points have, for some classes at a time, then the steps of these.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/train/minibatches/class_source.hpp"

namespace manyclass {

class CommonFeatureSteps {
 public:
  explicit CommonFeatureSteps(std::size_t n_features) : places_(n_features, absent) {}

  // Moves the classes at some places among those in common, from `first` to before `last`. A gradient that has no
  // numbers for these is a list over all classes, which then are in common, in ascending order.
  void descend(FeatureWeights weights, std::span<const LabelPoint> points, std::span<const ClassGradient> gradients,
               std::span<const Index> common, std::size_t first, std::size_t last, double eta, Isa isa) {
    place(points);
    const std::size_t n_rows = features_.size() + 1;  // the last one is the intercepts'
    const std::size_t some = std::max(cache_floats / n_rows / line_floats, std::size_t{1}) * line_floats;
    for (std::size_t c = first; c < last; c += some) {
      n_ = std::min(some, last - c);
      sums_.assign(n_rows * n_, 0.0F);
      std::size_t at = 0;
      for (std::size_t b = 0; b < points.size(); ++b) {
        const std::span<const std::uint32_t> places(at_.data() + at, points[b].x.indices.size());
        at += places.size();
        if (gradients[b].common.empty()) {
          add_list(points[b].x, places, gradients[b], c);
        } else {
          add(points[b].x, places, std::span<const float>(gradients[b].common).subspan(c, n_));
        }
      }
      move(weights, common.subspan(c, n_), eta, isa);
    }
    for (const Index j : features_) places_[static_cast<std::size_t>(j)] = absent;
  }

 private:
  static constexpr std::uint32_t absent = 0xffffffff;
  static constexpr std::size_t cache_floats = 1 << 16;  // 256 kB: about what the second cache has room for

  // Gives a place to each feature that a point has.
  void place(std::span<const LabelPoint> points) {
    features_.clear();
    at_.clear();
    for (const LabelPoint& point : points) {
      for (const Index j : point.x.indices) {
        std::uint32_t& its = places_[static_cast<std::size_t>(j)];
        if (its == absent) {
          its = static_cast<std::uint32_t>(features_.size());
          features_.push_back(j);
        }
        at_.push_back(its);
      }
    }
  }

  std::span<float> row(std::size_t place) { return std::span(sums_).subspan(place * n_, n_); }

  void add(SparseRow x, std::span<const std::uint32_t> places, std::span<const float> g) {
    for (std::size_t n = 0; n < places.size(); ++n) add_to(row(places[n]), x.values[n], g);
    add_to(row(features_.size()), 1, g);
  }

  static void add_to(std::span<float> sums, float value, std::span<const float> g) {
    float* const to = sums.data();
    for (std::size_t l = 0; l < g.size(); ++l) to[l] += value * g[l];
  }

  // Those of a list that are among the n classes from `first` on.
  void add_list(SparseRow x, std::span<const std::uint32_t> places, const ClassGradient& gradient, std::size_t first) {
    const auto from = std::ranges::lower_bound(gradient.ids, static_cast<Index>(first));
    for (auto i = static_cast<std::size_t>(from - gradient.ids.begin()); i < gradient.ids.size(); ++i) {
      const std::size_t l = static_cast<std::size_t>(gradient.ids[i]) - first;
      if (l >= n_) return;
      for (std::size_t n = 0; n < places.size(); ++n) row(places[n])[l] += x.values[n] * gradient.g[i];
      row(features_.size())[l] += gradient.g[i];
    }
  }

  void move(FeatureWeights& weights, std::span<const Index> classes, double eta, Isa isa) {
    squares_.assign(n_, 0.0);
    const std::size_t n_rows = features_.size() + (weights.learns_intercepts() ? 1 : 0);
    for (std::size_t r = 0; r < n_rows; ++r) {
      const std::span<const float> sums = row(r);
      for (std::size_t l = 0; l < n_; ++l) squares_[l] += static_cast<double>(sums[l]) * static_cast<double>(sums[l]);
    }
    steps_.resize(n_);
    for (std::size_t l = 0; l < n_; ++l) {
      steps_[l] = squares_[l] == 0 ? 0.0F : -length_of_step(weights.squares, classes[l], squares_[l], eta);
    }
    with_run(classes, [&](const auto& some) {
      for (std::size_t r = 0; r < n_rows; ++r) {
        const std::span<float> moves = row(r);
        for (std::size_t l = 0; l < n_; ++l) moves[l] *= steps_[l];
        if (r < features_.size()) {
          constexpr float one = 1;
          weights.model.rows.add({{&features_[r], 1}, {&one, 1}}, some, moves, isa);
        } else {
          const auto b = at_classes(weights.model.intercept, some);
          for (std::size_t l = 0; l < n_; ++l) b[l] += moves[l];
        }
      }
    });
  }

  std::vector<std::uint32_t> places_;  // of each feature
  std::vector<Index> features_;        // in the order of their places
  std::vector<std::uint32_t> at_;      // places of the features of all points, one after the other
  std::size_t n_ = 0;                  // classes at a time
  std::vector<float> sums_;            // places x n
  std::vector<double> squares_;
  std::vector<float> steps_;
};

}  // namespace manyclass
