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

// loss_of(i) at row i.
template <class LossOf>
void each_row(const LabelledRows& rows, Isa isa, const RowLosses& out, const LossOf& loss_of) {
  check_rows(rows);
  LossMemory memory;
  LabelsFirst row(rows.n_classes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    row.gather(rows.scores.subspan(i * rows.n_classes, rows.n_classes), rows.labels.of(i));
    LabelGradient slopes = row.gradient();
    const auto loss = loss_of(i);
    run_with(isa, [&] { out.values[i] = loss(row.scores(), slopes, memory); });
    row.scatter(out.gradients.subspan(i * rows.n_classes, rows.n_classes));
  }
}

// The projection as it is, of no loss.
struct Projection {
  double operator()(const LabelScores& z, LabelGradient& alpha, LossMemory& memory) const {
    const BiSimplex found = project_bisimplex(z.positives, z.negatives, 0, 0, 0, 1, memory.floats, memory.more_floats);
    for (std::size_t k = 0; k < z.positives.size(); ++k) {
      alpha.positives[k] = static_cast<float>(found.positive(static_cast<double>(z.positives[k])));
    }
    for (std::size_t j = 0; j < z.negatives.size(); ++j) {
      alpha.negatives[j] = static_cast<float>(found.negative(static_cast<double>(z.negatives[j])));
    }
    return found.value;
  }
};

}  // namespace

void label_losses(const LabelledRows& rows, const LabelLoss& any_loss, Isa isa, const RowLosses& out) {
  std::visit([&](const auto& loss) { each_row(rows, isa, out, [&](std::size_t) { return loss; }); }, any_loss);
}

void implicit_margins(const LabelledRows& rows, double smoothing, double eta, std::span<const double> x_sq, Isa isa,
                      const RowLosses& out) {
  if (x_sq.size() != rows.size()) throw std::invalid_argument("each row needs an x_sq");
  each_row(rows, isa, out, [&](std::size_t i) { return implicit_margin(smoothing, eta, x_sq[i]); });
}

void bisimplex_projections(const LabelledRows& rows, Isa isa, const RowLosses& out) {
  each_row(rows, isa, out, [](std::size_t) { return Projection{}; });
}

PointLoss label_loss_of(const LabelLoss& any_loss, const LabelScores& scores, Isa isa, LabelGradient& gradient) {
  PointLoss found{};
  LossMemory memory;
  std::visit(
      [&](const auto& loss) {
        run_with(isa, [&] { found.value = loss(scores, gradient, memory); });
        found.enough = loss.top_is_enough(gradient);
      },
      any_loss);
  return found;
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
