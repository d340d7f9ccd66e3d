// Losses of rows of scores with several labels each, and their gradients, all classes of a row seen.
#pragma once

#include <span>
#include <string_view>

#include "manyclass/core/lists.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/objective/label_loss.hpp"

namespace manyclass {

// N x K scores; a list of labels for each row, none empty.
struct LabelledRows {
  std::span<const float> scores;
  std::size_t n_classes;
  Excluded labels;

  std::size_t size() const { return labels.indptr.size() - 1; }
};

// Values (N) and gradients in the scores (N x K).
struct RowLosses {
  std::span<double> values;
  std::span<float> gradients;
};

// Each throws std::invalid_argument where the labels are not those of the rows. Of the loss; of the margin's proximal
// step of size eta, x_sq having |x|^2 of each row; of the projection on the bi-simplex, whose gradient it is.
void label_losses(const LabelledRows& rows, const LabelLoss& loss, Isa isa, const RowLosses& out);
void implicit_margins(const LabelledRows& rows, double smoothing, double eta, std::span<const double> x_sq, Isa isa,
                      const RowLosses& out);
void bisimplex_projections(const LabelledRows& rows, Isa isa, const RowLosses& out);

// The loss of one point, and whether its top is enough (see SmoothedMargin).
struct PointLoss {
  double value;
  bool enough;
};
PointLoss label_loss_of(const LabelLoss& loss, const LabelScores& scores, Isa isa, LabelGradient& gradient);

// The mean over weighted rows of a loss, or of a reduction of the log-loss, where all scores are 0; in nats where it
// has units. No weights: all are 1. Throws std::invalid_argument for a name that it does not know.
double loss_at_zero(std::string_view loss, std::span<const Offset> labels_indptr, std::size_t n_classes,
                    std::span<const double> weights);

}  // namespace manyclass
