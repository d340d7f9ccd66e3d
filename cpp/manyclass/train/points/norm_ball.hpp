// Keeping every w_k in a ball (Fagan & Iyengar 2018, Lemma 1 and Algorithm 1), its norm followed from move to move.
//
// The paper's set is the Frobenius ball of all of W; projecting each row on the same radius, as its Algorithm 1 does,
// keeps W in a larger set that still holds the optimum.
#pragma once

#include <cmath>
#include <span>

#include "manyclass/model/linear.hpp"

namespace manyclass {

class NormBall {
 public:
  NormBall(std::span<const float> intercept, std::span<double> norm_sq, double radius)
      : intercept_(intercept), norm_sq_(norm_sq), radius_sq_(radius * radius) {}

  // Follows the norms of the rows that a visit (slots.hpp) is about to move and, by a ridge, to shrink; `label_score`
  // is that before it, and the scores are of rows that are shrunk already, or not.
  template <class Slot>
  void grow(const Slot& slot, Index y, float label_score, double x_sq, bool ridge, bool shrunk) {
    for (std::size_t c = 0; c < slot.classes.size(); ++c) {
      grow(slot.classes[c], slot.scores[c], slot.moves[c], x_sq, ridge ? slot.shrinks[c] : 1.0F, shrunk);
      if (slot.classes[c] == y) label_score += slot.moves[c] * static_cast<float>(x_sq);
    }
    grow(y, label_score, static_cast<float>(slot.move.label), x_sq, ridge ? slot.label_shrink : 1.0F, false);
  }

  // w becomes s (w + a x), and ||w + a x||^2 = ||w||^2 + 2 a w.x + a^2 ||x||^2. `score` is that before the move, of w
  // or, if it is shrunk already, of s w.
  void grow(Index k, float score, float a, double x_sq, float s, bool shrunk) {
    const auto at = static_cast<std::size_t>(k);
    const auto step = static_cast<double>(a), shrink = static_cast<double>(s);
    if (a != 0) {
      const double s_w_x =
          static_cast<double>(score) - (intercept_.empty() ? 0.0 : static_cast<double>(intercept_[at]));
      const double w_x = shrunk ? s_w_x / shrink : s_w_x;
      norm_sq_[at] = std::fmax(norm_sq_[at] + step * (2 * w_x + step * x_sq), 0.0);
    }
    norm_sq_[at] *= shrink * shrink;
  }

  template <class Rows>
  void project(Index k, Linear<Rows>& model) {
    const auto at = static_cast<std::size_t>(k);
    if (norm_sq_[at] <= radius_sq_) return;
    const auto factor = static_cast<float>(std::sqrt(radius_sq_ / norm_sq_[at]));
    model.shrink(ClassRange{k, 1}, std::span<const float>(&factor, 1));
    norm_sq_[at] = radius_sq_;
  }

 private:
  std::span<const float> intercept_;
  std::span<double> norm_sq_;
  double radius_sq_;
};

}  // namespace manyclass
