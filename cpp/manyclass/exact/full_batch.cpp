// Full passes: see the header.
#include "manyclass/exact/full_batch.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "manyclass/exact/full_passes.hpp"
#include "manyclass/exact/gradient.hpp"

namespace manyclass {

namespace {

FeatureMajor<double> layout_for(const CsrView&, std::span<const double> weights, std::size_t width) {
  return {weights, width};
}
ClassMajor<double> layout_for(const DenseView&, std::span<const double> weights, std::size_t width) {
  return {weights, width};
}

}  // namespace

std::size_t kept_points(const FullBatchObjective& objective) {
  const auto n = static_cast<std::size_t>(n_rows(objective.x));
  const std::size_t points = std::min(n, objective.room / static_cast<std::size_t>(objective.n_classes));
  if (points == n) return n;
  const auto stored = static_cast<double>(std::visit([](const auto& x) { return nonzeros(x); }, objective.x));
  const double of_points = static_cast<double>(points) * stored / static_cast<double>(n);
  return of_points >= objective.nonzeros_a_feature * n_cols(objective.x) ? points : 0;
}

FullBatch::FullBatch(FullBatchObjective objective)
    : objective_(std::move(objective)),
      row_width_(static_cast<std::size_t>(std::holds_alternative<CsrView>(objective_.x) ? objective_.n_classes
                                                                                        : n_cols(objective_.x))),
      n_weights_(static_cast<std::size_t>(objective_.n_classes) * static_cast<std::size_t>(n_cols(objective_.x))),
      n_kept_(0),
      search_(n_weights_ + (objective_.fit_intercept ? static_cast<std::size_t>(objective_.n_classes) : 0)) {
  const FullBatchObjective& of = objective_;
  std::visit(
      [&](const auto& x) {
        const auto layout = layout_for(x, {}, row_width_);
        check(x, of.labels, DoubleModel<std::remove_const_t<decltype(layout)>>{layout, {}, of.n_classes});
      },
      of.x);
  if (!of.sample_weight.empty() && of.sample_weight.size() != of.labels.size()) {
    throw std::invalid_argument("sample_weight has " + std::to_string(of.sample_weight.size()) +
                                " values; it must have " + std::to_string(of.labels.size()));
  }
  n_kept_ = kept_points(of);
  room_.resize(n_kept_ * static_cast<std::size_t>(of.n_classes));
}

double FullBatch::evaluate(std::span<const double> theta, std::span<double> gradient) {
  const FullBatchObjective& of = objective_;
  const auto W = theta.first(n_weights_), b = theta.subspan(n_weights_);
  const auto W_gradient = gradient.first(n_weights_), b_gradient = gradient.subspan(n_weights_);
  const double mean = std::visit(
      [&](const auto& x) {
        const auto layout = layout_for(x, W, row_width_);
        const DoubleModel<std::remove_const_t<decltype(layout)>> model{layout, b, of.n_classes};
        return loss_and_gradient(of.loss, x, of.labels, of.sample_weight, model, of.n_threads, of.isa, room_,
                                 W_gradient, b_gradient);
      },
      of.x);
  if (!(of.alpha > 0)) return mean;
  add_times(W_gradient, of.alpha, W);
  return mean + of.alpha / 2 * sum_of_products(W, W);
}

bool FullBatch::iterate(double tolerance) {
  return search_.iterate(
      [this](std::span<const double> theta, std::span<double> gradient) { return evaluate(theta, gradient); },
      tolerance);
}

void FullBatch::check_sizes(std::size_t n_weights, std::size_t width, std::size_t n_intercepts) const {
  if (width < row_width_ || n_weights * row_width_ != n_weights_ * width ||
      n_intercepts != static_cast<std::size_t>(objective_.n_classes)) {
    throw std::invalid_argument("the weights or intercepts do not have the sizes of the iterate");
  }
}

void FullBatch::read(std::span<const float> matrix, std::size_t width, std::span<const float> intercept) {
  check_sizes(matrix.size(), width, intercept.size());
  const std::span<double> theta = search_.at();
  for (std::size_t at = 0, row = 0; at < n_weights_; at += row_width_, row += width) {
    std::copy_n(matrix.data() + row, row_width_, theta.data() + at);
  }
  if (objective_.fit_intercept) std::copy(intercept.begin(), intercept.end(), theta.data() + n_weights_);
}

void FullBatch::write(std::span<float> matrix, std::size_t width, std::span<float> intercept) const {
  check_sizes(matrix.size(), width, intercept.size());
  const auto rounded = [](double value) { return static_cast<float>(value); };
  const std::span<const double> theta = search_.at();
  for (std::size_t at = 0, row = 0; at < n_weights_; at += row_width_, row += width) {
    std::transform(theta.data() + at, theta.data() + at + row_width_, matrix.data() + row, rounded);
  }
  if (objective_.fit_intercept) {
    std::transform(theta.data() + n_weights_, theta.data() + theta.size(), intercept.data(), rounded);
  }
}

}  // namespace manyclass
