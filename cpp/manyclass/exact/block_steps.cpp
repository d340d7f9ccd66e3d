// See block_steps.hpp.
#include "manyclass/exact/block_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/lists.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/math/sums.hpp"
#include "manyclass/weights/class_rows.hpp"
#include "manyclass/weights/feature_rows.hpp"

namespace manyclass {

namespace {

constexpr double largest_own_curvature = 0.25;  // of p (1 - p)

template <class Data>
using RowsFor = std::conditional_t<std::is_same_v<Data, CsrView>, FeatureRows<float>, ClassRows<float>>;

std::span<const float> values_of(SparseRow x) { return x.values; }
std::span<const float> values_of(DenseRow x) { return x; }

template <class Data>
void check(const Data& x, const BlockOfClasses& of) {
  const std::size_t n_features = static_cast<std::size_t>(x.n_cols), n_classes = of.intercept.size();
  const bool sparse = std::is_same_v<Data, CsrView>;
  const std::size_t width = n_features == 0 ? 0 : of.matrix.size() / n_features;
  if (width * n_features != of.matrix.size() || (sparse ? width % line_floats != 0 : width != n_classes) ||
      width < n_classes) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  if (of.labels.size() != static_cast<std::size_t>(x.n_rows())) {
    throw std::invalid_argument("the labels are not those of the points");
  }
}

template <class Data>
class Steps {
 public:
  Steps(const Data& x, const BlockSteps& steps)
      : x_(x),
        s_(steps),
        all_{0, static_cast<Index>(steps.of.intercept.size())},
        rows_(steps.of.matrix, x.n_cols),
        numbers_(steps.together * all_.size()),
        row_(all_.size()),
        bounds_(all_.size()),
        sizes_(all_.size()) {}

  StepsTaken run() {
    std::vector<Index> points;
    for (std::size_t first = 0; first < s_.order.size(); first += s_.together) {
      const auto some = s_.order.subspan(first, std::min(s_.together, s_.order.size() - first));
      points.assign(some.begin(), some.end());
      std::sort(points.begin(), points.end());  // as they lie in memory
      poll(points.size() * all_.size() * line_floats);
      run_with(s_.of.isa, [&](Isa isa) { step(points, isa); });
    }
    for (const float b : s_.of.intercept) taken_.finite = taken_.finite && std::isfinite(b);
    taken_.finite = taken_.finite && std::isfinite(taken_.loss);
    return taken_;
  }

 private:
  // Scores, then slopes, then what is added to weights: of the i-th point of a step.
  std::span<float> numbers_of(std::size_t i) { return std::span(numbers_).subspan(i * all_.size(), all_.size()); }

  void step(std::span<const Index> points, Isa isa) {
    score(points, isa);
    std::ranges::fill(bounds_, 0.0);
    for (std::size_t i = 0; i < points.size(); ++i) derive(points[i], numbers_of(i));
    for (std::size_t c = 0; c < sizes_.size(); ++c) {
      sizes_[c] = static_cast<float>(s_.eta / (1 + s_.eta * bounds_[c]));
    }
    if (s_.alpha > 0) shrink(static_cast<float>(static_cast<double>(points.size()) * s_.alpha));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const std::span<float> a = numbers_of(i);
      for (std::size_t c = 0; c < a.size(); ++c) a[c] *= -sizes_[c];
      if (!s_.fit_intercept) continue;
      for (std::size_t c = 0; c < a.size(); ++c) s_.of.intercept[c] += a[c];
    }
    add(points, isa);
  }

  // Turns scores of a point into slopes of its loss.
  void derive(Index point, std::span<float> z) {
    const auto i = static_cast<std::size_t>(point);
    for (std::size_t c = 0; c < z.size(); ++c) {
      z[c] += s_.of.intercept[c];
      row_[c] = static_cast<double>(z[c]);
    }
    const std::span<double> parts = s_.log_sums.subspan(i * s_.n_blocks, s_.n_blocks);
    parts[s_.number] = log_sum_exp(row_);
    taken_.finite = taken_.finite && std::isfinite(parts[s_.number]);
    const double v = log_sum_exp(parts), weight = s_.sample_weight.empty() ? 1.0 : s_.sample_weight[i];
    const std::span<const float> x = values_of(x_.row(point));
    const double length = weight * (sum_of_products(x, x) + (s_.fit_intercept ? 1 : 0));
    const auto label = static_cast<std::size_t>(s_.of.labels[i]);  // a negative one is beyond all classes
    const bool own = label < z.size();
    if (own) {
      taken_.loss += weight * (v - row_[label]);
      bounds_[label] += length * largest_own_curvature;
    }
    for (std::size_t c = 0; c < z.size(); ++c) z[c] = vec::exp(static_cast<float>(row_[c] - v));
    for (std::size_t c = 0; c < z.size(); ++c) bounds_[c] += length * static_cast<double>(z[c]);
    if (own) z[label] -= 1;
    if (weight == 1) return;
    for (float& slope : z) slope *= static_cast<float>(weight);
  }

  void score(std::span<const Index> points, Isa isa) {
    if constexpr (std::is_same_v<Data, CsrView>) {
      for (std::size_t i = 0; i < points.size(); ++i) rows_.scores(x_.row(points[i]), all_, numbers_of(i));
    } else {
      for (std::size_t i = 0; i < points.size(); i += rows_together) {
        const std::size_t n = std::min(rows_together, points.size() - i);
        take(points.subspan(i, n));
        rows_.scores(std::span<const float* const>(taken_rows_), all_, isa, numbers_of(i));
      }
    }
  }

  void add(std::span<const Index> points, Isa isa) {
    if constexpr (std::is_same_v<Data, CsrView>) {
      for (std::size_t i = 0; i < points.size(); ++i) rows_.add(x_.row(points[i]), all_, numbers_of(i), isa);
    } else {
      take(points);
      rows_.add(std::span<const float* const>(taken_rows_), all_, isa, numbers_, all_.size());
    }
  }

  void take(std::span<const Index> points) {
    taken_rows_.clear();
    for (const Index point : points) taken_rows_.push_back(x_.row(point).data());
  }

  // The step of the ridge, of whose strength each point has a share.
  void shrink(float strength) {
    std::vector<float> factors(sizes_.size());
    for (std::size_t c = 0; c < factors.size(); ++c) factors[c] = 1 / (1 + strength * sizes_[c]);
    if constexpr (std::is_same_v<Data, CsrView>) {
      const std::size_t width = s_.of.matrix.size() / static_cast<std::size_t>(x_.n_cols);
      for (std::size_t at = 0; at < s_.of.matrix.size(); at += width) {
        float* const w = s_.of.matrix.data() + at;
        for (std::size_t c = 0; c < factors.size(); ++c) w[c] *= factors[c];
      }
    } else {
      for (std::size_t c = 0; c < factors.size(); ++c) rows_.multiply(all_[c], factors[c]);
    }
  }

  const Data& x_;
  const BlockSteps& s_;
  ClassRange all_;
  RowsFor<Data> rows_;
  std::vector<float> numbers_;
  std::vector<double> row_, bounds_;
  std::vector<float> sizes_;
  std::vector<const float*> taken_rows_;
  StepsTaken taken_;
};

}  // namespace

template <class Data>
StepsTaken exact_block_steps(const Data& x, const BlockSteps& steps) {
  check(x, steps.of);
  const std::size_t n = steps.of.labels.size();
  if (steps.number >= steps.n_blocks || steps.log_sums.size() != n * steps.n_blocks || steps.together == 0 ||
      (!steps.sample_weight.empty() && steps.sample_weight.size() != n)) {
    throw std::invalid_argument("the log-sums or the weights are not those of the points");
  }
  check_distinct(steps.order, n);
  if (steps.of.intercept.empty()) return {};
  return Steps<Data>(x, steps).run();
}

template <class Data>
void estimated_log_sums(const Data& x, const BlockOfClasses& of, const ClassSample& sample, std::span<double> out) {
  check(x, of);
  const std::size_t n_classes = of.intercept.size(), n = sample.classes.size();
  if (sample.scale.size() != n_classes || sample.log_weights.size() != n || out.size() != of.labels.size()) {
    throw std::invalid_argument("the sample is not one of the block's classes");
  }
  check_distinct(sample.classes, n_classes);
  const RowsFor<Data> rows(of.matrix, x.n_cols);
  std::vector<float> products(n);
  std::vector<double> z(n + 1);
  const auto score = [&](float product, Index k) {
    const auto at = static_cast<std::size_t>(k);
    return static_cast<double>(product * sample.scale[at] + of.intercept[at]);
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    poll((n + 1) * line_floats);
    const auto point = x.row(static_cast<Index>(i));
    const Index label = of.labels[i];
    run_with(of.isa, [&] {
      rows.scores(point, sample.classes, products);
      for (std::size_t c = 0; c < n; ++c) {
        const Index k = sample.classes[c];
        // In place of the label, where it was drawn, comes the label itself, with weight 1.
        z[c] = k == label ? -std::numeric_limits<double>::infinity() : score(products[c], k) + sample.log_weights[c];
      }
      const bool own = label >= 0 && static_cast<std::size_t>(label) < n_classes;
      z[n] = own ? score(rows.score(point, label), label) : -std::numeric_limits<double>::infinity();
      out[i] = log_sum_exp(z);
    });
  }
}

template StepsTaken exact_block_steps(const CsrView&, const BlockSteps&);
template StepsTaken exact_block_steps(const DenseView&, const BlockSteps&);
template void estimated_log_sums(const CsrView&, const BlockOfClasses&, const ClassSample&, std::span<double>);
template void estimated_log_sums(const DenseView&, const BlockOfClasses&, const ClassSample&, std::span<double>);

}  // namespace manyclass
