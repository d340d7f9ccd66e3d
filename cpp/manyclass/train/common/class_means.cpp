// See class_means.hpp.
#include "manyclass/train/common/class_means.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace manyclass {

namespace {

void check(const LabelledPoints& points, const ClassMeans& known) {
  const auto n = static_cast<std::size_t>(points.x.n_rows()), width = static_cast<std::size_t>(points.x.n_cols);
  const std::size_t n_classes = known.counts.size();
  if (points.labels.size() != n || points.weights.size() != n || known.centre.size() != width ||
      known.means.size() != n_classes * width) {
    throw std::invalid_argument("the labels, the weights or the means do not fit the points");
  }
  const auto fits = [&](Index label) { return label >= 0 && static_cast<std::size_t>(label) < n_classes; };
  if (!std::ranges::all_of(points.labels, fits)) throw std::invalid_argument("a label is out of range");
}

}  // namespace

void class_means(const LabelledPoints& points, const ClassMeans& out) {
  check(points, out);
  const auto width = static_cast<std::size_t>(points.x.n_cols);
  std::vector<double> centre(width);
  double total = 0;
  std::ranges::fill(out.counts, 0.0);
  std::ranges::fill(out.means, 0.0F);
  for (std::size_t i = 0; i < points.labels.size(); ++i) {
    const DenseRow row = points.x.row(static_cast<Index>(i));
    const auto k = static_cast<std::size_t>(points.labels[i]);
    const double weight = points.weights[i];
    const auto share = static_cast<float>(weight);
    for (std::size_t j = 0; j < width; ++j) {
      centre[j] += weight * static_cast<double>(row[j]);
      out.means[k * width + j] += share * row[j];
    }
    out.counts[k] += weight;
    total += weight;
  }
  for (std::size_t j = 0; j < width; ++j) out.centre[j] = static_cast<float>(centre[j] / total);
  for (std::size_t k = 0; k < out.counts.size(); ++k) {
    if (!(out.counts[k] > 0)) continue;
    const auto n = static_cast<float>(out.counts[k]);
    for (std::size_t j = 0; j < width; ++j) out.means[k * width + j] = out.means[k * width + j] / n - out.centre[j];
  }
}

void within_classes(const LabelledPoints& points, std::span<const std::int64_t> rows, const ClassMeans& known,
                    std::span<double> out) {
  check(points, known);
  const auto width = static_cast<std::size_t>(points.x.n_cols);
  if (out.size() != rows.size() * width) throw std::invalid_argument("there must be a deviation for each row");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r] < 0 || static_cast<std::size_t>(rows[r]) >= points.labels.size()) {
      throw std::invalid_argument("a row is out of range");
    }
    const auto i = static_cast<std::size_t>(rows[r]), k = static_cast<std::size_t>(points.labels[i]);
    const DenseRow row = points.x.row(static_cast<Index>(i));
    const double n = std::max(known.counts[k] / points.weights[i], 1 + std::numeric_limits<double>::epsilon());
    const double factor = std::sqrt(n / (n - 1));
    for (std::size_t j = 0; j < width; ++j) {
      out[r * width + j] = factor * static_cast<double>(row[j] - known.centre[j] - known.means[k * width + j]);
    }
  }
}

bool shrink_means(std::span<const double> counts, std::span<const double> variances, std::span<float> means,
                  std::span<float> coef, std::span<double> offset) {
  const std::size_t n_classes = counts.size(), width = n_classes == 0 ? 0 : means.size() / n_classes;
  if (means.size() != n_classes * width || coef.size() != means.size() || offset.size() != n_classes ||
      (variances.size() != width && variances.size() != 1)) {
    throw std::invalid_argument("the variances or what is written do not fit the means");
  }
  double by_chance = 0, n_there = 0;
  for (const double n : counts) {
    if (!(n > 0)) continue;
    by_chance += 1 / n;
    ++n_there;
  }
  by_chance /= std::max(n_there, 1.0);
  std::vector<double> left(width), of_new(width);
  for (std::size_t j = 0; j < width; ++j) {
    left[j] = std::max(variances[variances.size() == 1 ? 0 : j] - by_chance, 0.0);
  }
  if (std::ranges::all_of(left, [](double variance) { return variance == 0; })) return false;
  for (std::size_t k = 0; k < n_classes; ++k) {
    const bool there = counts[k] > 0;
    for (std::size_t j = 0; j < width; ++j) {
      const double f = there && left[j] > 0 ? left[j] / (left[j] + 1 / counts[k]) : 0;
      means[k * width + j] = static_cast<float>(f * static_cast<double>(means[k * width + j]));
      if (there) of_new[j] += (1 + f / counts[k]) / n_there;
    }
  }
  for (std::size_t k = 0; k < n_classes; ++k) {
    offset[k] = 0;
    for (std::size_t j = 0; j < width; ++j) {
      const auto mean = static_cast<double>(means[k * width + j]);
      coef[k * width + j] = static_cast<float>(mean / of_new[j]);
      offset[k] -= 0.5 * mean * static_cast<double>(coef[k * width + j]);
    }
  }
  return true;
}

}  // namespace manyclass
