// See sampled_bounds.hpp.
#include "manyclass/evaluate/sampled_bounds.hpp"

#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/math/logistic.hpp"

namespace manyclass {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-9;  // of sums of K rounded probabilities, K up to 10^6

void refuse(double value, const char* before, const char* rule) {
  std::ostringstream message;
  message << before << value << rule;
  throw std::invalid_argument(message.str());
}

}  // namespace

void check_proposal(const ScoreRows& rows, std::span<const double> p) {
  if (p.size() != rows.f.size()) throw std::invalid_argument("there is no probability for each class");
  const std::size_t n_classes = rows.n_classes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double own = p[i * n_classes + static_cast<std::size_t>(rows.labels[i])];
    if (own != 0) refuse(own, "proposal is ", " at a point's own class k; it must be 0 there");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> of_row = p.subspan(i * n_classes, n_classes);
    double total = 0;
    for (std::size_t m = 0; m < n_classes; ++m) {
      if (!(of_row[m] > 0) && m != static_cast<std::size_t>(rows.labels[i])) {
        throw std::invalid_argument(
            "proposal must be positive at every class but k: what is never drawn would bias the sum");
      }
      total += of_row[m];
    }
    if (!(std::fabs(total - 1) <= rounding)) refuse(total, "proposal sums to ", "; it must sum to 1");
  }
}

void sampled_one_vs_each(const ScoreRows& rows, std::span<const Index> drawn, std::span<const double> p,
                         const ScoreBounds& out) {
  check(rows);
  check_proposal(rows, p);
  const std::size_t n_classes = rows.n_classes, r = rows.size() == 0 ? 1 : drawn.size() / rows.size();
  if (drawn.size() != rows.size() * r) throw std::invalid_argument("rows have different numbers of drawn classes");
  std::vector<double> times(n_classes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> f = rows.row(i);
    const std::span<double> slopes = row_of(out.gradients, i, n_classes);
    const auto k = static_cast<std::size_t>(rows.labels[i]);
    std::ranges::fill(times, 0.0);
    for (const Index m : drawn.subspan(i * r, r)) {
      if (m < 0 || static_cast<std::size_t>(m) >= n_classes || static_cast<std::size_t>(m) == k) {
        throw std::invalid_argument("drawn must hold 1 class or more a point, and none of them k");
      }
      ++times[static_cast<std::size_t>(m)];
    }
    double value = 0;
    for (std::size_t m = 0; m < n_classes; ++m) {
      const double weight = times[m] == 0 ? 0 : times[m] / (static_cast<double>(r) * p[i * n_classes + m]);
      if (weight != 0) value += weight * log_expit(f[k] - f[m]);
      slopes[m] = weight * expit(f[m] - f[k]);
    }
    to_gradient(slopes, k);
    out.values[i] = value;
  }
}

void one_vs_each_proposal(const ScoreRows& rows, double uniform, std::span<double> p) {
  check(rows);
  if (p.size() != rows.f.size()) throw std::invalid_argument("there is no place for each class");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> f = rows.row(i);
    const std::span<double> of_row = row_of(p, i, rows.n_classes);
    const auto k = static_cast<std::size_t>(rows.labels[i]);
    double top = -infinity, total = 0;
    for (std::size_t m = 0; m < f.size(); ++m) {
      of_row[m] = m == k ? -infinity : log_expit(f[m] - f[k]);
      top = std::max(top, of_row[m]);
    }
    for (const double log_slope : of_row) total += std::exp(log_slope - top);
    const double rest = uniform / static_cast<double>(rows.n_classes - 1);
    for (double& log_slope : of_row) log_slope = (1 - uniform) * std::exp(log_slope - top) / total + rest;
    of_row[k] = 0;
  }
}

void one_vs_each_variances(const ScoreRows& rows, std::span<const double> p, std::span<double> of_values,
                           std::span<double> of_gradients) {
  check(rows);
  check_proposal(rows, p);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> f = rows.row(i);
    const auto k = static_cast<std::size_t>(rows.labels[i]);
    double values = 0, sum_of_values = 0, slopes = 0, sum_of_slopes = 0;
    for (std::size_t m = 0; m < f.size(); ++m) {
      if (m == k) continue;
      const double a = log_expit(f[k] - f[m]), s = expit(f[m] - f[k]), own = p[i * rows.n_classes + m];
      values += a * a / own;
      sum_of_values += a;
      slopes += 2 * s * s / own - s * s;
      sum_of_slopes += s;
    }
    // Where the proposal is the best one for two classes both are 0 but for rounding.
    of_values[i] = std::max(values - sum_of_values * sum_of_values, 0.0);
    of_gradients[i] = std::max(slopes - sum_of_slopes * sum_of_slopes, 0.0);
  }
}

}  // namespace manyclass
