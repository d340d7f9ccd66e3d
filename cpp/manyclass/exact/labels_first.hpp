// Rows of scores of all classes in the order of a loss: the labels, then the wrong classes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/core/types.hpp"
#include "manyclass/objective/point.hpp"

namespace manyclass {

// One row after another, and the gradient in its scores.
class LabelsFirst {
 public:
  explicit LabelsFirst(std::size_t n_classes) : z_(n_classes), g_(n_classes) {}

  // Takes a row with these sorted labels.
  void gather(std::span<const float> scores, std::span<const Index> labels) {
    labels_ = labels;
    for (std::size_t k = 0; k < labels.size(); ++k) z_[k] = scores[static_cast<std::size_t>(labels[k])];
    std::size_t at = labels.size();
    between([&](std::size_t begin, std::size_t end) {
      std::ranges::copy(scores.subspan(begin, end - begin), z_.data() + at);
      at += end - begin;
    });
  }

  LabelScores scores() const { return {std::span(z_).first(labels_.size()), std::span(z_).subspan(labels_.size())}; }
  LabelGradient gradient() { return {std::span(g_).first(labels_.size()), std::span(g_).subspan(labels_.size())}; }

  // Writes the gradient in the order of the classes.
  void scatter(std::span<float> gradient) const {
    for (std::size_t k = 0; k < labels_.size(); ++k) gradient[static_cast<std::size_t>(labels_[k])] = g_[k];
    std::size_t at = labels_.size();
    between([&](std::size_t begin, std::size_t end) {
      std::ranges::copy(std::span(g_).subspan(at, end - begin), gradient.data() + begin);
      at += end - begin;
    });
  }

 private:
  // Calls f(begin, end) for each stretch of classes between labels.
  template <class F>
  void between(const F& f) const {
    std::size_t begin = 0;
    for (const Index label : labels_) {
      f(begin, static_cast<std::size_t>(label));
      begin = static_cast<std::size_t>(label) + 1;
    }
    f(begin, z_.size());
  }

  std::vector<float> z_, g_;
  std::span<const Index> labels_;
};

}  // namespace manyclass
