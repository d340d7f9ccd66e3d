// See drawn_descent.hpp.
#include "manyclass/choice/drawn_descent.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "manyclass/core/simd.hpp"
#include "manyclass/math/sums.hpp"

namespace manyclass {

namespace {

constexpr double longest = 0.5;  // of a step, in nats: far beyond what noise makes of it
constexpr double power = -0.7;   // of the number of steps, by which they fall

std::variant<DrawnSums, DrawnProducts> sums_of(const DrawnDescentStart& start) {
  if (start.noise == "gumbel") return DrawnSums(start.n_rows);
  return DrawnProducts(start.noise, start.n_rows);
}

}  // namespace

DrawnDescent::DrawnDescent(DrawnDescentStart start)
    : start_(std::move(start)), sums_(sums_of(start_)), sum_of_own_(start_.own.size()) {
  const std::size_t n = start_.free.size(), n_metric = start_.metric.size();
  if (start_.own.size() != n || (n_metric != n && n_metric != n * n) ||
      start_.ridge.size() != start_.free.place.size()) {
    throw std::invalid_argument("the metric, the ridge or the coefficients do not fit each other");
  }
}

std::vector<double> DrawnDescent::direction(std::span<const double> slope) const {
  const std::vector<double>& T = start_.metric;
  const std::size_t n = slope.size();
  std::vector<double> found(n), middle(n);
  if (T.size() == n && n != 1) {
    for (std::size_t j = 0; j < n; ++j) found[j] = T[j] * (T[j] * slope[j]);
    return found;
  }
  run_with(best_isa(), [&] {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) middle[j] += T[i * n + j] * slope[i];
    }
    for (std::size_t i = 0; i < n; ++i) found[i] = sum_of_products(std::span(T).subspan(i * n, n), middle);
  });
  return found;
}

void DrawnDescent::look(std::span<const Index> rows, const ChoiceProblem& problem, int visits) {
  std::visit([&](auto& sums) { sums.visit(problem, rows, theta(), visits); }, sums_);
}

void DrawnDescent::step(std::span<const Index> rows, const ChoiceProblem& problem, int visits) {
  if (rows.empty()) throw std::invalid_argument("there are no rows");
  const std::vector<double> at = theta();
  std::vector<double> gradient(at.size());
  loss_ += std::visit([&](auto& sums) { return sums.step(problem, rows, at, visits, gradient); }, sums_);
  const double share = static_cast<double>(start_.n_rows) / static_cast<double>(rows.size());
  for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] = gradient[j] * share + start_.ridge[j] * at[j];
  const std::vector<double> slope = start_.free.reduced(gradient), way = direction(slope);
  const double rate = std::pow(++start_.n_steps, power);
  const double length = rate * std::sqrt(std::max(sum_of_products(way, slope), 0.0));
  const double shorter = rate * std::min(1.0, longest / std::max(length, 1e-300));
  for (std::size_t j = 0; j < way.size(); ++j) {
    start_.own[j] = std::clamp(start_.own[j] - shorter * way[j], start_.free.low[j], start_.free.high[j]);
    sum_of_own_[j] += start_.own[j];
  }
  ++n_batches_;
}

double DrawnDescent::end_pass() {
  for (double& sum : sum_of_own_) sum /= std::max(n_batches_, 1.0);
  means_.push_back(std::exchange(sum_of_own_, std::vector<double>(start_.own.size())));
  n_batches_ = 0;
  return std::exchange(loss_, 0.0);
}

std::vector<double> DrawnDescent::average_passes() {
  if (means_.empty()) throw std::invalid_argument("no pass was made");
  const auto late = std::span(means_).subspan(means_.size() / 2);
  const auto n = static_cast<double>(late.size());
  std::vector<double> variances(start_.own.size());
  for (std::size_t j = 0; j < variances.size(); ++j) {
    double sum = 0, squares = 0;
    for (const std::vector<double>& mean : late) sum += mean[j];
    start_.own[j] = sum / n;
    for (const std::vector<double>& mean : late) squares += (mean[j] - start_.own[j]) * (mean[j] - start_.own[j]);
    if (late.size() > 1) variances[j] = squares / (n - 1) / n;
  }
  return variances;
}

double DrawnDescent::variance_of_weights(std::span<const Index> rows, const ChoiceProblem& one,
                                         const ChoiceProblem& other, int visits) const {
  const auto* sums = std::get_if<DrawnSums>(&sums_);
  if (sums == nullptr || rows.empty() || one.n_rows() != rows.size() || other.n_rows() != rows.size()) {
    throw std::invalid_argument("the problems are not those of the rows, or of Gumbel noise");
  }
  const std::vector<double> at = theta();
  std::vector<double> u(rows.size());
  sums->log_normalizers(rows, visits, u);
  std::vector<double> first(rows.size()), second(rows.size());
  log_sums(one, at, first);
  log_sums(other, at, second);
  double of_first = 0, of_second = 0, products = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double a = std::exp(first[i] - u[i]), b = std::exp(second[i] - u[i]);
    of_first += a;
    of_second += b;
    products += a * b;
  }
  const auto n = static_cast<double>(rows.size());
  return std::max(products / n - of_first / n * (of_second / n), 0.0);
}

std::vector<double> DrawnDescent::difference(std::span<const Index> rows, const ChoiceProblem& problem) const {
  const auto* sums = std::get_if<DrawnProducts>(&sums_);
  if (sums == nullptr) throw std::invalid_argument("the noise is Gumbel's");
  const std::vector<double> at = theta();
  std::vector<double> gradient(at.size());
  sums->difference(problem, rows, at, gradient);
  for (double& slope : gradient) slope *= static_cast<double>(start_.n_rows);
  return direction(start_.free.reduced(gradient));
}

}  // namespace manyclass
