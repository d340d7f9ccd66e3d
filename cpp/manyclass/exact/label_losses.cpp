// See label_losses.hpp.
#include "manyclass/exact/label_losses.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "manyclass/exact/labels_first.hpp"

namespace manyclass {

namespace {

void check_rows(const LabelledRows& rows) {
  check(rows.labels, rows.n_classes == 0 ? 0 : rows.scores.size() / rows.n_classes, rows.n_classes, "labels");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows.labels.of(i).empty()) throw std::invalid_argument("row " + std::to_string(i) + " has no label");
  }
}

// value(i, scores, slopes, memory) of each row i.
template <class Value>
void each_row(const LabelledRows& rows, const RowLosses& out, const Value& value) {
  check_rows(rows);
  LossMemory memory;
  LabelsFirst row(rows.n_classes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    row.gather(rows.scores.subspan(i * rows.n_classes, rows.n_classes), rows.labels.of(i));
    LabelGradient slopes = row.gradient();
    out.values[i] = value(i, row.scores(), slopes, memory);
    row.scatter(out.gradients.subspan(i * rows.n_classes, rows.n_classes));
  }
}

// The projection as it is, of no loss.
double project(const LabelScores& z, LabelGradient& alpha, LossMemory& memory, Isa isa) {
  BiSimplex projection;
  run_with(isa, [&] {
    projection = project_bisimplex(z.positives, z.negatives, 0, 0, 0, 1, memory.floats, memory.more_floats);
    for (std::size_t k = 0; k < z.positives.size(); ++k) {
      alpha.positives[k] = static_cast<float>(projection.positive(static_cast<double>(z.positives[k])));
    }
    for (std::size_t j = 0; j < z.negatives.size(); ++j) {
      alpha.negatives[j] = static_cast<float>(projection.negative(static_cast<double>(z.negatives[j])));
    }
  });
  return projection.value;
}

}  // namespace

void label_losses(const LabelledRows& rows, const LabelLoss& loss, Isa isa, const RowLosses& out) {
  each_row(rows, out, [&](std::size_t, const LabelScores& z, LabelGradient& g, LossMemory& memory) {
    return value_of(loss, z, g, memory, isa);
  });
}

void implicit_margins(const LabelledRows& rows, double smoothing, double eta, std::span<const double> x_sq, Isa isa,
                      const RowLosses& out) {
  if (x_sq.size() != rows.size()) throw std::invalid_argument("each row needs an x_sq");
  each_row(rows, out, [&](std::size_t i, const LabelScores& z, LabelGradient& g, LossMemory& memory) {
    return value_of(implicit_margin(smoothing, eta, x_sq[i]), z, g, memory, isa);
  });
}

void bisimplex_projections(const LabelledRows& rows, Isa isa, const RowLosses& out) {
  each_row(rows, out, [&](std::size_t, const LabelScores& z, LabelGradient& alpha, LossMemory& memory) {
    return project(z, alpha, memory, isa);
  });
}

PointLoss label_loss_of(const LabelLoss& any_loss, const LabelScores& scores, Isa isa, LabelGradient& gradient) {
  LossMemory memory;
  const double value = value_of(any_loss, scores, gradient, memory, isa);
  return {value, std::visit([&](const auto& loss) { return loss.top_is_enough(gradient); }, any_loss)};
}

double loss_at_zero(std::string_view loss, std::span<const Offset> labels_indptr, std::size_t n_classes,
                    std::span<const double> weights) {
  const auto all = static_cast<double>(n_classes);
  const auto of_row = [&](double n) {
    if (loss == "cross_entropy" || loss == "pick_all") return n * std::log(all);
    if (loss == "pick_all_normalized") return std::log(all);
    if (loss == "decoupled") return n * std::log1p(all - n);
    if (loss == "logistic") return all * std::log(2.0);
    if (loss == "margin") return 1.0;
    if (loss == "triplet") return all * n;
    throw std::invalid_argument("loss is '" + std::string(loss) + "', of which no value at 0 is known");
  };
  const std::size_t n_rows = labels_indptr.empty() ? 0 : labels_indptr.size() - 1;
  if (n_rows == 0 || (!weights.empty() && weights.size() != n_rows)) {
    throw std::invalid_argument("the weights do not fit the rows, or there are none");
  }
  double sum = 0, total = 0;
  for (std::size_t i = 0; i < n_rows; ++i) {
    const double weight = weights.empty() ? 1 : weights[i];
    sum += weight * of_row(static_cast<double>(labels_indptr[i + 1] - labels_indptr[i]));
    total += weight;
  }
  return sum / total;
}

}  // namespace manyclass
