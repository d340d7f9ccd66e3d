// See feature_scaling.hpp.
#include "manyclass/weights/feature_scaling.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "manyclass/core/interrupt.hpp"

namespace manyclass {

namespace {

// How many times its spread the mean of a feature may be. At this limit, float rounds what the feature adds to a score
// by a tenth. A feature that varies less is scaled as if it varied that much, and the ridge keeps its weight small.
// Constant features need the limit, too, because rounding puts their weighted mean slightly beside them.
constexpr double most_means = 1e6;
// Weights of features with a smaller scale might overflow in float; they stay 0, since nothing is left of the feature.
constexpr double smallest = 1e-32;
// Scales of sparse features that differ by less are left as they are: the values of rare and frequent words do, by 15
// on eurlex57k, and that is information; dividing by them costs 0.07 nats there and 0.03 on delicious.
constexpr double most_spread = 100;
// Root mean square of the lengths of sparse rows that is left as it is: shorter ones learn more slowly than intercepts
// (3.52 nats on bibtex for lengths of 1/4), and between these there is no clear best (2.58 to 2.64).
constexpr double shortest = 1, longest = 8;
// Numbers whose sums are taken together, before they are added to those of other rows: errors grow with either number.
constexpr std::size_t block_numbers = std::size_t{1} << 20;

float held(double number) {
  constexpr double most = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(number, -most, most));
}

std::size_t size_of(Index n) { return static_cast<std::size_t>(n); }

// The sum over rows of each feature's f(x, j), in the order of the rows.
template <class F>
std::vector<double> column_sums(const DenseView& x, std::span<const double> row_weights, const F& f) {
  const std::size_t n = size_of(x.rows), width = size_of(x.n_cols);
  const std::size_t step = std::max<std::size_t>(1, block_numbers / std::max<std::size_t>(1, width));
  std::vector<double> total(width), sums(width);
  for (std::size_t first = 0; first < n; first += step) {
    std::ranges::fill(sums, 0.0);
    for (std::size_t i = first; i < std::min(n, first + step); ++i) {
      poll(width);
      const DenseRow row = x.row(static_cast<Index>(i));
      const double weight = row_weights.empty() ? 1 : row_weights[i];
      for (std::size_t j = 0; j < width; ++j) sums[j] += weight * f(static_cast<double>(row[j]), j);
    }
    for (std::size_t j = 0; j < width; ++j) total[j] += sums[j];
  }
  return total;
}

// Makes scales of 0 those that change nothing, and too small ones infinite.
FeatureScaling usable(std::vector<double> shift, std::vector<double> scale) {
  for (double& s : scale) s = s == 0 ? 1 : s < smallest ? std::numeric_limits<double>::infinity() : s;
  return {std::move(shift), std::move(scale)};
}

FeatureScaling without_shift(std::vector<double> scale) {
  std::vector<double> shift(scale.size());
  return usable(std::move(shift), std::move(scale));
}

FeatureScaling of_dense(const DenseView& x, std::span<const double> row_weights, bool centre) {
  const double n = static_cast<double>(x.rows);
  const std::vector<double> others =
      column_sums(x, row_weights, [](double v, std::size_t) { return v != 0 ? 1.0 : 0.0; });
  const auto is_full = [&](std::size_t j) { return others[j] > n / 2; };
  std::vector<double> shift(others.size());
  if (centre) {
    shift = column_sums(x, row_weights, [](double v, std::size_t) { return v; });
    for (std::size_t j = 0; j < shift.size(); ++j) shift[j] = is_full(j) ? shift[j] / n : 0;
  }
  std::vector<double> scale = column_sums(x, row_weights, [at = shift.data()](double v, std::size_t j) {
    const double less = v - at[j];
    return less * less;
  });
  for (std::size_t j = 0; j < scale.size(); ++j) {
    const double n_seen = is_full(j) ? n : others[j] > 0 ? others[j] : 1;
    scale[j] = std::max(std::sqrt(scale[j] / n_seen), std::fabs(shift[j]) / most_means);
  }
  return usable(std::move(shift), std::move(scale));
}

// Of the stored values of each column: the sum of squares, and how many are not 0.
struct ColumnSquares {
  std::vector<double> squares, n_others;

  ColumnSquares(const CsrView& x, std::span<const double> row_weights)
      : squares(size_of(x.n_cols)), n_others(squares.size()) {
    for (Index i = 0; i < x.n_rows(); ++i) {
      const SparseRow row = x.row(i);
      const double weight = row_weights.empty() ? 1 : row_weights[size_of(i)];
      poll(row.indices.size());
      for (std::size_t s = 0; s < row.indices.size(); ++s) {
        const std::size_t j = size_of(row.indices[s]);
        const double value = row.values[s];
        squares[j] += value * value * weight;
        n_others[j] += value != 0 ? weight : 0;
      }
    }
  }

  std::vector<double> scale() const {
    std::vector<double> found(squares.size());
    for (std::size_t j = 0; j < found.size(); ++j) {
      found[j] = std::sqrt(squares[j] / (n_others[j] > 0 ? n_others[j] : 1));
    }
    return found;
  }
};

// The power of two that rows of this length are divided by, to have one of 1 to 8.
double power_of_two(double length) {
  const double from = std::max(length, smallest);
  return std::ldexp(1.0, static_cast<int>(std::nearbyint(std::log2(from / std::clamp(from, shortest, longest)))));
}

// The quantile between the two nearest of sorted numbers.
double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const double a = sorted[low], b = sorted[std::min(low + 1, sorted.size() - 1)],
               part = place - static_cast<double>(low);
  return part < 0.5 ? a + (b - a) * part : b - (b - a) * (1 - part);
}

std::vector<double> sorted_scales_there(const std::vector<double>& scale) {
  std::vector<double> there;
  std::ranges::copy_if(scale, std::back_inserter(there), [](double s) { return s >= smallest; });
  std::ranges::sort(there);
  return there;
}

FeatureScaling of_sparse(const CsrView& x, std::span<const double> row_weights) {
  const ColumnSquares found(x, row_weights);
  std::vector<double> scale = found.scale();
  const std::vector<double> there = sorted_scales_there(scale);
  if (there.empty() || there.back() <= most_spread * there.front()) {
    const double sum = std::accumulate(found.squares.begin(), found.squares.end(), 0.0);
    std::ranges::fill(scale, power_of_two(std::sqrt(sum / std::max(1.0, static_cast<double>(x.n_rows())))));
  }
  return without_shift(std::move(scale));
}

double median_length(const CsrView& x) {
  std::vector<double> lengths;
  for (Index i = 0; i < x.n_rows(); ++i) {
    double sum = 0;
    for (const float value : x.row(i).values) sum += static_cast<double>(value) * static_cast<double>(value);
    lengths.push_back(sum);
  }
  std::ranges::sort(lengths);
  return lengths.empty() ? 0 : std::sqrt(quantile(lengths, 0.5));
}

// Makes each weight f(weight, number of its feature). It does not poll: half of it would be no model.
template <class F>
void map_weights(const LinearWeights& w, std::span<const double> of_features, const F& f) {
  const std::size_t n_rows = w.by_feature ? of_features.size() : w.intercept.size();
  const std::size_t n_columns = w.by_feature ? w.intercept.size() : of_features.size();
  for (std::size_t r = 0; r < n_rows; ++r) {
    float* row = w.matrix.data() + r * w.stride;
    const double* of_columns = of_features.data();
    if (w.by_feature) {
      for (std::size_t c = 0; c < n_columns; ++c) row[c] = held(f(static_cast<double>(row[c]), of_features[r]));
    } else {
      for (std::size_t c = 0; c < n_columns; ++c) row[c] = held(f(static_cast<double>(row[c]), of_columns[c]));
    }
  }
}

// Adds sign * w_k.shift to the intercept of each class.
void move_intercept(const LinearWeights& w, std::span<const double> shift, double sign) {
  if (std::ranges::all_of(shift, [](double s) { return s == 0; })) return;
  const std::size_t n_classes = w.intercept.size();
  std::vector<double> products(n_classes);
  if (w.by_feature) {
    for (std::size_t j = 0; j < shift.size(); ++j) {
      const float* row = w.matrix.data() + j * w.stride;
      for (std::size_t k = 0; k < n_classes; ++k) products[k] += static_cast<double>(row[k]) * shift[j];
    }
  } else {
    constexpr std::size_t lanes = 4;  // sums that do not wait for each other
    for (std::size_t k = 0; k < n_classes; ++k) {
      const float* row = w.matrix.data() + k * w.stride;
      double sums[lanes] = {};
      std::size_t j = 0;
      for (; j + lanes <= shift.size(); j += lanes) {
        for (std::size_t l = 0; l < lanes; ++l) sums[l] += static_cast<double>(row[j + l]) * shift[j + l];
      }
      for (; j < shift.size(); ++j) sums[0] += static_cast<double>(row[j]) * shift[j];
      products[k] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }
  for (std::size_t k = 0; k < n_classes; ++k) {
    w.intercept[k] = held(static_cast<double>(w.intercept[k]) + sign * products[k]);
  }
}

void check_fit(const ScalingView& scaling, std::size_t n_features) {
  if (scaling.shift.size() != n_features || scaling.scale.size() != n_features) {
    throw std::invalid_argument("the scaling has " + std::to_string(scaling.scale.size()) + " features, the data " +
                                std::to_string(n_features));
  }
}

void check_fit(const ScalingView& scaling, const LinearWeights& w) {
  const std::size_t n_rows = w.by_feature ? scaling.scale.size() : w.intercept.size();
  const std::size_t n_columns = w.by_feature ? w.intercept.size() : scaling.scale.size();
  if (scaling.shift.size() != scaling.scale.size() || n_columns > w.stride || w.matrix.size() != n_rows * w.stride) {
    throw std::invalid_argument("the scaling does not fit the weights");
  }
}

}  // namespace

FeatureScaling scaling_of(const AnyData& x, std::span<const double> row_weights, bool centre) {
  if (!row_weights.empty() && row_weights.size() != size_of(n_rows(x))) {
    throw std::invalid_argument("there must be a weight for each row");
  }
  const auto* sparse = std::get_if<CsrView>(&x);
  return sparse != nullptr ? of_sparse(*sparse, row_weights) : of_dense(std::get<DenseView>(x), row_weights, centre);
}

FeatureScaling scaling_of_first_rows(const CsrView& x) {
  std::vector<double> scale = ColumnSquares(x, {}).scale();
  std::vector<double> there = sorted_scales_there(scale);
  if (there.empty()) there.push_back(1);
  const double middle = quantile(there, 0.5);
  if (quantile(there, 0.95) <= most_spread * quantile(there, 0.05)) {
    std::ranges::fill(scale, power_of_two(median_length(x)));
  } else {
    for (double& s : scale) s = s >= smallest ? s : middle;
  }
  return without_shift(std::move(scale));
}

void scale_features(const AnyData& x, const ScalingView& scaling, std::span<float> out) {
  check_fit(scaling, size_of(n_cols(x)));
  const double *shift = scaling.shift.data(), *scale = scaling.scale.data();
  if (const auto* sparse = std::get_if<CsrView>(&x)) {
    if (out.size() != sparse->data.size()) throw std::invalid_argument("there must be a place for each stored value");
    for (std::size_t s = 0; s < out.size(); ++s) {
      out[s] = held(static_cast<double>(sparse->data[s]) / scale[size_of(sparse->indices[s])]);
    }
    return;
  }
  const auto& dense = std::get<DenseView>(x);
  if (out.size() != dense.data.size())
    throw std::invalid_argument("there must be a place for each feature of each row");
  const std::size_t width = size_of(dense.n_cols);
  for (std::size_t i = 0; i < size_of(dense.rows); ++i) {
    poll(width);
    const float* row = dense.data.data() + i * width;
    float* scaled = out.data() + i * width;
    // Rows of next to no weight may be far beyond the scale.
    for (std::size_t j = 0; j < width; ++j) scaled[j] = held((static_cast<double>(row[j]) - shift[j]) / scale[j]);
  }
}

void fold(const ScalingView& scaling, const LinearWeights& weights) {
  check_fit(scaling, weights);
  map_weights(weights, scaling.scale, [](double w, double scale) { return w / scale; });
  move_intercept(weights, scaling.shift, -1);
}

void unfold(const ScalingView& scaling, const LinearWeights& weights) {
  check_fit(scaling, weights);
  move_intercept(weights, scaling.shift, 1);
  map_weights(weights, scaling.scale, [](double w, double scale) { return std::isfinite(scale) ? w * scale : 0; });
}

}  // namespace manyclass
