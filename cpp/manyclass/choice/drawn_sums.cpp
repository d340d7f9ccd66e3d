// See drawn_sums.hpp.
#include "manyclass/choice/drawn_sums.hpp"

#include <algorithm>

#include "manyclass/choice/drawn_rules.hpp"

namespace manyclass {

namespace {

constexpr std::size_t nodes = NoiseNodes::size;
using Shares = std::array<double, nodes>;

template <class Noise>
std::vector<double> log_densities() {
  std::vector<double> out(nodes);
  for (std::size_t n = 0; n < nodes; ++n) {
    out[n] = Noise::log_density(noise_nodes<Noise>[n]) + std::log(noise_nodes<Noise>.spacing);
  }
  return out;
}

// Shares of the nodes, of f e^{a A + b B}, and the log of their sum.
double shares_of(std::span<const double> log_density, std::span<const float> A, std::span<const float> B, double a,
                 Shares& q) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    q[n] = log_density[n] + a * static_cast<double>(A[n]) + (1 - a) * static_cast<double>(B[n]);
    top = std::max(top, q[n]);
  }
  for (double& share : q) {
    share = std::exp(share - top);
    sum += share;
  }
  for (double& share : q) share /= sum;
  return top + std::log(sum);
}

}  // namespace

DrawnProducts::DrawnProducts(const std::string& noise, std::size_t n) : noise_(noise), n_(n) {
  if (noise != "normal" && noise != "logistic") {
    throw std::invalid_argument("noise is '" + noise + "'; it must be 'normal' or 'logistic'");
  }
  log_density_ = noise == "normal" ? log_densities<NormalNoise>() : log_densities<LogisticNoise>();
  for (auto& own : halves_) own.resize(n * nodes);
}

std::span<float> DrawnProducts::half(std::size_t which, Index row) {
  return std::span(halves_[which]).subspan(static_cast<std::size_t>(row) * nodes, nodes);
}
std::span<const float> DrawnProducts::half(std::size_t which, Index row) const {
  return std::span(halves_[which]).subspan(static_cast<std::size_t>(row) * nodes, nodes);
}

void DrawnProducts::add(std::span<const Index> rows, std::span<const double> found, int visits) {
  const auto share = static_cast<float>(share_of_visit(visits / 2));
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const std::span<float> own = half(static_cast<std::size_t>(visits % 2), rows[p]);
    // A product of e^-1e30 is none, and its weight times infinity would be no number.
    for (std::size_t n = 0; n < nodes; ++n) {
      const auto value = static_cast<float>(std::max(found[p * nodes + n], -1e30));
      own[n] = visits < 2 ? value : own[n] + share * (value - own[n]);
    }
  }
}

void DrawnProducts::visit(const ChoiceProblem& problem, std::span<const Index> rows, std::span<const double> theta,
                          int visits) {
  check_drawn_rows(problem, noise_, rows, n_);
  std::vector<double> found(rows.size() * nodes);
  log_products(problem, theta, {}, found, {});
  add(rows, found, visits);
}

double DrawnProducts::step(const ChoiceProblem& problem, std::span<const Index> rows, std::span<const double> theta,
                           int visits, std::span<double> gradient) {
  check_drawn_rows(problem, noise_, rows, n_);
  if (visits < 2) throw std::invalid_argument("a step needs two visits before");
  std::vector<double> found(rows.size() * nodes), weights(found.size());
  double value = 0;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const auto A = half(0, rows[p]), B = half(1, rows[p]);
    Shares of_A, of_B, of_both;
    const double log_p = 2 * shares_of(log_density_, A, B, 0.5, of_both) -
                         0.5 * (shares_of(log_density_, A, B, 1, of_A) + shares_of(log_density_, A, B, 0, of_B));
    for (std::size_t n = 0; n < nodes; ++n) weights[p * nodes + n] = 2 * of_both[n] - 0.5 * (of_A[n] + of_B[n]);
    value -= problem.weight(p) * log_p;
  }
  log_products(problem, theta, weights, found, gradient);
  add(rows, found, visits);
  return value;
}

void DrawnProducts::difference(const ChoiceProblem& problem, std::span<const Index> rows, std::span<const double> theta,
                               std::span<double> gradient) const {
  check_drawn_rows(problem, noise_, rows, n_);
  std::vector<double> found(rows.size() * nodes), weights(found.size());
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const auto A = half(0, rows[p]), B = half(1, rows[p]);
    Shares of_A, of_B;
    shares_of(log_density_, A, B, 1, of_A);
    shares_of(log_density_, A, B, 0, of_B);
    for (std::size_t n = 0; n < nodes; ++n) weights[p * nodes + n] = 0.5 * (of_A[n] - of_B[n]);
  }
  log_products(problem, theta, weights, found, gradient);
}

}  // namespace manyclass
