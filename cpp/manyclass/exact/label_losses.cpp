// See label_losses.hpp.
#include "manyclass/exact/label_losses.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace manyclass {

namespace {

void check_rows(const LabelledRows& rows) {
  check(rows.labels, rows.n_classes == 0 ? 0 : rows.scores.size() / rows.n_classes, rows.n_classes, "labels");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows.labels.of(i).empty()) throw std::invalid_argument("row " + std::to_string(i) + " has no label");
  }
}

// Calls f(begin, end) for each stretch of classes between labels.
template <class F>
void between(std::span<const Index> labels, std::size_t n_classes, const F& f) {
  std::size_t begin = 0;
  for (const Index label : labels) {
    f(begin, static_cast<std::size_t>(label));
    begin = static_cast<std::size_t>(label) + 1;
  }
  f(begin, n_classes);
}

// loss_of(i) at row i.
template <class LossOf>
void each_row(const LabelledRows& rows, Isa isa, const RowLosses& out, const LossOf& loss_of) {
  check_rows(rows);
  LossMemory memory;
  std::vector<float> z(rows.n_classes), g(rows.n_classes);  // the labels, then the wrong classes
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const Index> labels = rows.labels.of(i);
    const auto from = rows.scores.subspan(i * rows.n_classes, rows.n_classes);
    const auto to = out.gradients.subspan(i * rows.n_classes, rows.n_classes);
    const std::size_t p = labels.size();
    for (std::size_t k = 0; k < p; ++k) z[k] = from[static_cast<std::size_t>(labels[k])];
    std::size_t at = p;
    between(labels, rows.n_classes, [&](std::size_t begin, std::size_t end) {
      std::ranges::copy(from.subspan(begin, end - begin), z.data() + at);
      at += end - begin;
    });
    const LabelScores scores{std::span(z).first(p), std::span(z).subspan(p)};
    LabelGradient slopes{std::span(g).first(p), std::span(g).subspan(p)};
    const auto loss = loss_of(i);
    run_with(isa, [&] { out.values[i] = loss(scores, slopes, memory); });
    for (std::size_t k = 0; k < p; ++k) to[static_cast<std::size_t>(labels[k])] = g[k];
    at = p;
    between(labels, rows.n_classes, [&](std::size_t begin, std::size_t end) {
      std::ranges::copy(std::span(g).subspan(at, end - begin), to.data() + begin);
      at += end - begin;
    });
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

}  // namespace manyclass
