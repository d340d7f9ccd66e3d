// See continuing.hpp.
#include "manyclass/train/common/continuing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <variant>

namespace manyclass {

std::vector<double> squares_of_features(const AnyData& x, std::span<const double> weights) {
  const auto n = static_cast<std::size_t>(n_rows(x)), n_features = static_cast<std::size_t>(n_cols(x));
  if (!weights.empty() && weights.size() != n) throw std::invalid_argument("the weights do not fit the points");
  std::vector<double> sums(n_features + 1);
  const auto add = [&](std::size_t j, float value, double weight) {
    sums[j] += weight * (static_cast<double>(value) * static_cast<double>(value));
  };
  for (std::size_t i = 0; i < n; ++i) {
    const double weight = weights.empty() ? 1 : weights[i];
    if (const auto* csr = std::get_if<CsrView>(&x)) {
      const SparseRow row = csr->row(static_cast<Index>(i));
      for (std::size_t m = 0; m < row.indices.size(); ++m) {
        add(static_cast<std::size_t>(row.indices[m]), row.values[m], weight);
      }
    } else {
      const DenseRow row = std::get<DenseView>(x).row(static_cast<Index>(i));
      for (std::size_t j = 0; j < n_features; ++j) add(j, row[j], weight);
    }
    sums[n_features] += weight;
  }
  return sums;
}

std::vector<double> alike(std::span<const double> squares) {
  if (squares.empty()) throw std::invalid_argument("there must be sums of squares and the number of rows");
  const std::span<const double> sums = squares.first(squares.size() - 1);
  double most = 0, total = 0, of_squares = 0;
  for (const double sum : sums) most = std::max(most, sum);
  for (const double sum : sums) {
    const double share = most > 0 ? sum / most : 0;  // whose squares do not overflow
    total += share;
    of_squares += share * share;
  }
  std::vector<double> found(squares.size(), most > 0 ? most * of_squares / total : 0);
  found.back() = squares.back();
  return found;
}

void set_new_intercepts(std::span<const std::int64_t> position, std::span<const double> before,
                        std::span<const double> now, std::span<float> intercept) {
  constexpr double of_one = 10;  // what says that the slope is 1: as much as ten classes with counts e times the mean
  const std::size_t n = intercept.size();
  if (before.size() != n || now.size() != n) throw std::invalid_argument("the counts do not fit the intercepts");
  std::vector<bool> old(n);
  std::vector<double> logs, there;
  double mean_log = 0, mean = 0;
  for (const std::int64_t k : position) {
    if (k < 0 || static_cast<std::size_t>(k) >= n) throw std::invalid_argument("a class is out of range");
    old[static_cast<std::size_t>(k)] = true;
  }
  for (std::size_t k = 0; k < n; ++k) {
    if (!old[k] || !(before[k] > 0)) continue;
    logs.push_back(std::log(before[k]));
    there.push_back(static_cast<double>(intercept[k]));
    mean_log += logs.back();
    mean += there.back();
  }
  if (logs.empty()) return;
  mean_log /= static_cast<double>(logs.size());
  mean /= static_cast<double>(logs.size());
  double products = of_one, squares = of_one;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    products += (logs[i] - mean_log) * (there[i] - mean);
    squares += (logs[i] - mean_log) * (logs[i] - mean_log);
  }
  const double slope = std::clamp(products / squares, 0.0, 1.0);
  for (std::size_t k = 0; k < n; ++k) {
    if (!old[k]) intercept[k] = static_cast<float>(mean + slope * (std::log(now[k]) - mean_log));
  }
}

FallingSteps steps_between(double first, double last, int n_passes) {
  const double falls = first > 0 ? std::min(1.0, last / first) : 1;  // huge features have steps of size 0
  return {std::pow(falls, 0.5 / n_passes), std::pow(falls, 1.0 / n_passes)};
}

FallingSteps steps_by_sums(std::span<const double> before, std::span<const double> now, double per_sum, int n_passes) {
  if (before.size() != now.size()) throw std::invalid_argument("the sums of squares do not fit each other");
  std::vector<double> after(before.begin(), before.end());
  for (std::size_t j = 0; j < after.size(); ++j) after[j] += n_passes * now[j];
  const double first = 1 + per_sum * alike(before).front(), falls = first / (1 + per_sum * alike(after).front());
  return {std::pow(falls, 0.5 / n_passes) / first, std::pow(falls, 1.0 / n_passes)};
}

std::optional<std::pair<double, double>> steps_kept_above(double first, double last, double least, int n_passes) {
  if (last >= least) return std::nullopt;
  const double from = std::max(first, least);
  return std::pair(from, std::pow(least / from, 1.0 / std::max(1, n_passes - 1)));
}

CarriedRows::CarriedRows(std::size_t n_rows, std::size_t n_numbers) {
  numbers_.assign(n_numbers, std::vector<float>(n_rows, std::numeric_limits<float>::quiet_NaN()));
}

std::vector<std::vector<double>> CarriedRows::of(std::span<const std::int64_t> rows) {
  std::int64_t last = -1;
  for (const std::int64_t row : rows) {
    if (row < 0) throw std::invalid_argument("a row is out of range");
    last = std::max(last, row);
  }
  std::vector<std::vector<double>> found;
  bool all = true;
  for (std::vector<float>& numbers : numbers_) {
    if (const auto n = static_cast<std::size_t>(last + 1); n > numbers.size()) {
      // By a half more, so that all parts together copy each row a few times.
      numbers.resize(std::max(n, numbers.size() + numbers.size() / 2), std::numeric_limits<float>::quiet_NaN());
    }
    std::vector<double>& own = found.emplace_back();
    for (const std::int64_t row : rows) {
      own.push_back(static_cast<double>(numbers[static_cast<std::size_t>(row)]));
      all = all && !std::isnan(own.back());
    }
  }
  if (!all) return {};
  return found;
}

void CarriedRows::put(std::span<const std::int64_t> rows, std::size_t which, std::span<const double> values) {
  constexpr double most = std::numeric_limits<float>::max();
  if (which >= numbers_.size() || values.size() != rows.size()) throw std::invalid_argument("the values do not fit");
  std::vector<float>& numbers = numbers_[which];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || static_cast<std::size_t>(rows[i]) >= numbers.size()) {
      throw std::invalid_argument("a row is out of range");
    }
    numbers[static_cast<std::size_t>(rows[i])] = static_cast<float>(std::clamp(values[i], -most, most));
  }
}

}  // namespace manyclass
