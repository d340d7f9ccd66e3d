// See softmax_bounds.hpp.
#include "manyclass/evaluate/softmax_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>

#include "manyclass/math/log_gamma.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/math/logistic.hpp"

namespace manyclass {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// log sum_{m != k} e^{f_m - f_k}.
double log_odds(std::span<const double> f, std::size_t k) {
  double top = -infinity, total = 0;
  for (std::size_t m = 0; m < f.size(); ++m) top = m == k ? top : std::max(top, f[m]);
  for (std::size_t m = 0; m < f.size(); ++m) total += m == k ? 0 : std::exp(f[m] - top);
  return top - f[k] + std::log(total);
}

// With the best score f_1 apart, the best a is the root of
//
//   G(a) = log sum_{m != 1} sigma(f_m - a) - log sigma(a - f_1),
//
// which unlike the sum stays sloped where sigmoids saturate. -G' = E[sigma(a - f_m)] + sigma(f_1 - a), a mean over m !=
// 1 weighted by sigma(f_m - a): each term is below 1, and one is at least 1/2 (the second where a <= f_1, the first
// where a >= f_1 >= f_m). So the root lies between a + G/2 and a + 2 G, for any a. At the mean of the two best scores,
// 0 <= G <= log(K - 1).
struct Saturation {
  double value, slope;
};
Saturation saturation(std::span<const double> f, std::size_t first, double second, double a) {
  const double top = log_expit(second - a);
  double total = 0, weighted = 0;
  for (std::size_t m = 0; m < f.size(); ++m) {
    if (m == first) continue;
    const double weight = std::exp(log_expit(f[m] - a) - top);
    total += weight;
    weighted += weight * expit(a - f[m]);
  }
  return {top + std::log(total) - log_expit(a - f[first]), -weighted / total - expit(f[first] - a)};
}

double bouchard_location(std::span<const double> f) {
  const auto first = static_cast<std::size_t>(std::ranges::max_element(f) - f.begin());
  double second = -infinity;
  for (std::size_t m = 0; m < f.size(); ++m) second = m == first ? second : std::max(second, f[m]);
  const double small =
      4 * std::numeric_limits<double>::epsilon() * std::max({1.0, std::fabs(f[first]), std::fabs(second)});
  double a = f[first] / 2 + second / 2, low = -infinity, high = infinity, step = infinity;
  while (true) {
    const auto [value, slope] = saturation(f, first, second, a);
    low = std::max(low, a + std::min(value / 2, 2 * value));
    high = std::min(high, a + std::max(value / 2, 2 * value));
    const double newton = a - value / slope;
    // Newton inside the bracket while its steps halve, else the middle: either the step or the bracket is halved each
    // time, so this ends. (Rounding of G may leave low above high; the root is then between them.)
    const bool good = newton >= low && newton <= high && std::fabs(newton - a) <= step / 2;
    const double target = good ? newton : low + (high - low) / 2;
    step = std::fabs(target - a);
    a = target;
    if (step <= small || high - low <= small) return a;
  }
}

}  // namespace

void block_bounds(const ScoreRows& rows, std::span<const Index> blocks, const ScoreBounds& out) {
  check(rows);
  const std::size_t n_classes = rows.n_classes;
  const bool of_each = blocks.size() != n_classes;
  const auto outside = [&](Index block) { return block < 0 || static_cast<std::size_t>(block) >= n_classes; };
  if ((of_each && blocks.size() != rows.f.size()) || std::ranges::any_of(blocks, outside)) {
    throw std::invalid_argument("there is no block for each class");
  }
  std::vector<double> top(n_classes), total(n_classes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> f = rows.row(i);
    const std::span<const Index> block = of_each ? blocks.subspan(i * n_classes, n_classes) : blocks;
    const std::span<double> slopes = row_of(out.gradients, i, n_classes);
    const auto k = static_cast<std::size_t>(rows.labels[i]);
    const auto at = [&](std::size_t m) { return static_cast<std::size_t>(block[m]); };
    std::ranges::fill(top, -infinity);
    std::ranges::fill(total, 0.0);
    for (std::size_t m = 0; m < n_classes; ++m) {
      if (m != k) top[at(m)] = std::max(top[at(m)], f[m]);
    }
    for (std::size_t m = 0; m < n_classes; ++m) {
      slopes[m] = m == k ? 0 : std::exp(f[m] - top[at(m)]);
      total[at(m)] += slopes[m];
    }
    double value = 0;
    for (std::size_t b = 0; b < n_classes; ++b) {
      if (top[b] == -infinity) continue;  // no class is in it, or k alone
      const double odds = top[b] - f[k] + std::log(total[b]);
      value += log_expit(-odds);
      total[b] = expit(odds) / total[b];  // P(m | k or block) = P(block | k or block) e^{f_m} / sum over the block
    }
    for (std::size_t m = 0; m < n_classes; ++m) slopes[m] *= m == k ? 0 : total[at(m)];
    to_gradient(slopes, k);
    out.values[i] = value;
  }
}

void bouchard_bounds(const ScoreRows& rows, std::span<const double> a, const ScoreBounds& out) {
  check(rows);
  if (a.size() != rows.size()) throw std::invalid_argument("there is no a for each row");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> f = rows.row(i);
    const std::span<double> gradient = row_of(out.gradients, i, rows.n_classes);
    const auto k = static_cast<std::size_t>(rows.labels[i]);
    // f_k - a - log(1 + e^{f_k - a}) = log sigma(f_k - a): a sum of terms of one sign, so nothing cancels.
    double value = log_expit(f[k] - a[i]), sum = 0;
    for (std::size_t m = 0; m < f.size(); ++m) {
      const double weight = expit(f[m] - a[i]);
      if (m != k) value += log_expit(a[i] - f[m]);
      sum += weight;
      gradient[m] = -weight;
    }
    gradient[k] = expit(a[i] - f[k]);
    out.values[i] = value;
    out.slopes[i] = sum - 1;
  }
}

std::vector<double> bouchard_locations(std::span<const double> f, std::size_t n_classes) {
  if (n_classes < 2 || f.size() % n_classes != 0)
    throw std::invalid_argument("the scores are of less than two classes");
  std::vector<double> a(f.size() / n_classes);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = bouchard_location(f.subspan(i * n_classes, n_classes));
  return a;
}

void tangent_slopes(const ScoreRows& rows, std::span<const double> u, const ScoreBounds& out) {
  check(rows);
  if (!u.empty() && u.size() != rows.size()) throw std::invalid_argument("there is no u for each row");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> f = rows.row(i);
    const std::span<double> slopes = row_of(out.gradients, i, rows.n_classes);
    const auto k = static_cast<std::size_t>(rows.labels[i]);
    out.values[i] = log_add(0, log_odds(f, k));
    const double at = u.empty() ? out.values[i] : u[i];
    for (std::size_t m = 0; m < f.size(); ++m) slopes[m] = std::exp(f[m] - f[k] - at);
    to_gradient(slopes, k);
  }
}

void gumbel_bounds(const ScoreRows& rows, std::span<const double> mu, std::span<const double> s,
                   const ScoreBounds& out) {
  if (mu.size() != rows.size() || s.size() != rows.size()) throw std::invalid_argument("there is no q for each row");
  constexpr double gamma = std::numbers::egamma;
  // E eps = mu + gamma s, E e^-eps = e^-mu Gamma(1 + s), entropy = log s + gamma + 1.
  std::vector<double> tangents(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) tangents[i] = mu[i] - log_gamma(1 + s[i]);
  tangent_slopes(rows, tangents, out);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double expected = std::exp(out.values[i] - tangents[i]);
    out.values[i] = 1 - mu[i] + gamma * (1 - s[i]) + std::log(s[i]) - expected;
    out.slopes[2 * i] = expected - 1;
    out.slopes[2 * i + 1] = 1 / s[i] - gamma - expected * digamma(1 + s[i]);
  }
}

std::vector<Index> block_numbers(std::span<const Index> classes, std::span<const Offset> sizes,
                                 std::span<const Index> labels, std::size_t n_classes) {
  std::vector<Index> numbers(n_classes), times(n_classes);
  auto next = classes.begin();
  Index block = 0;
  for (const Offset size : sizes) {
    for (Offset n = 0; n < size; ++n, ++next) {
      if (next == classes.end() || *next < 0 || static_cast<std::size_t>(*next) >= n_classes) {
        throw std::invalid_argument("the blocks hold other classes than there are");
      }
      numbers[static_cast<std::size_t>(*next)] = block;
      ++times[static_cast<std::size_t>(*next)];
    }
    block += size > 0 ? 1 : 0;
  }
  const auto most = std::ranges::max_element(times);
  if (most != times.end() && *most > 1) {
    throw std::invalid_argument("class " + std::to_string(most - times.begin()) + " stands " + std::to_string(*most) +
                                " times in blocks; once is the rule");
  }
  for (std::size_t m = 0; m < n_classes; ++m) {
    const auto is_m = [m](Index k) { return static_cast<std::size_t>(k) == m; };
    if (times[m] == 0 && !std::ranges::all_of(labels, is_m)) {
      throw std::invalid_argument("class " + std::to_string(m) +
                                  " stands in no block; every class but k must stand in one");
    }
  }
  return numbers;
}

std::pair<double, double> predictive_scores(const ScoreRows& rows) {
  check(rows);
  double n_wrong = 0, total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> f = rows.row(i);
    const auto k = static_cast<std::size_t>(rows.labels[i]);
    n_wrong += static_cast<std::size_t>(std::ranges::max_element(f) - f.begin()) == k ? 0 : 1;
    total += log_add(0, log_odds(f, k));
  }
  const auto n = static_cast<double>(rows.size());
  return {n_wrong / n, total / n};
}

std::vector<double> one_vs_each_of_classes(std::span<const double> f) {
  std::vector<double> bounds(f.size(), std::numbers::ln2);  // without the term of a class with itself
  for (std::size_t k = 0; k < f.size(); ++k) {
    for (const double other : f) bounds[k] += log_expit(f[k] - other);
  }
  return bounds;
}

}  // namespace manyclass
