// See paired_comparisons.hpp.
#include "manyclass/exact/paired_comparisons.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/math/lbfgs.hpp"
#include "manyclass/math/logistic.hpp"

namespace manyclass {

namespace {

// Nats that a score moves at most in a step: beyond, a curvature of e^-5 says nothing of where the maximum is.
constexpr double longest_step = 5;
constexpr double rounding = 1e-13;  // of a sum of up to 10^3 log-probabilities and more, relative
constexpr double residual = 1e-13;  // of the linear system of a step, relative to the gradient

std::size_t at(std::span<const Index> classes, std::size_t i) { return static_cast<std::size_t>(classes[i]); }

double largest(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0, [](double most, double v) { return std::max(most, std::fabs(v)); });
}

// The second derivatives are minus the Laplacian of a graph whose edges have these weights.
struct Laplacian {
  const PairedWins& pairs;
  std::vector<double> weights, degrees;

  Laplacian(const PairedWins& of, std::span<const double> f)
      : pairs(of), weights(of.wins.size()), degrees(of.n_classes) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::size_t k = at(pairs.winner, i), l = at(pairs.loser, i);
      weights[i] = pairs.wins[i] * expit(f[k] - f[l]) * expit(f[l] - f[k]);
      degrees[k] += weights[i];
      degrees[l] += weights[i];
    }
  }

  void times(std::span<const double> x, std::span<double> out) const {
    std::ranges::fill(out, 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::size_t k = at(pairs.winner, i), l = at(pairs.loser, i);
      const double flow = weights[i] * (x[k] - x[l]);
      out[k] += flow;
      out[l] -= flow;
    }
  }
};

// The ascent of Newton's method, which leaves f_0: the system L step = gradient without the row and the column of class
// 0, by conjugate gradients, preconditioned by the diagonal. (All of L is singular, and rounding would leave the system
// without a solution.) In exact arithmetic K iterations suffice; rounding may need some more.
std::vector<double> newton_step(const Laplacian& laplacian, std::span<const double> gradient) {
  const std::size_t n = gradient.size();
  std::vector<double> step(n), rest(gradient.begin(), gradient.end()), scaled(n), direction(n), product(n);
  const auto scale = [&] {
    rest[0] = 0;
    for (std::size_t k = 0; k < n; ++k) scaled[k] = laplacian.degrees[k] > 0 ? rest[k] / laplacian.degrees[k] : 0;
    return sum_of_products(rest, scaled);
  };
  const double enough = residual * largest(gradient);
  const std::size_t pairs_per_round = laplacian.weights.size();
  double size = scale();
  direction = scaled;
  for (std::size_t round = 0; round < 4 * n && largest(rest) > enough; ++round) {
    poll(pairs_per_round);
    laplacian.times(direction, product);
    const double curvature = sum_of_products(direction, product);
    if (!(curvature > 0)) break;
    const double a = size / curvature;
    for (std::size_t k = 0; k < n; ++k) {
      step[k] += a * direction[k];
      rest[k] -= a * product[k];
    }
    const double before = size;
    size = scale();
    for (std::size_t k = 0; k < n; ++k) direction[k] = scaled[k] + size / before * direction[k];
  }
  return step;
}

}  // namespace

void check(const PairedWins& pairs) {
  const auto is_class = [&](Index k) { return k >= 0 && static_cast<std::size_t>(k) < pairs.n_classes; };
  if (pairs.winner.size() != pairs.wins.size() || pairs.loser.size() != pairs.wins.size() ||
      !std::ranges::all_of(pairs.winner, is_class) || !std::ranges::all_of(pairs.loser, is_class)) {
    throw std::invalid_argument("the wins are not of pairs of classes");
  }
}

double log_likelihood(const PairedWins& pairs, std::span<const double> f, std::span<double> gradient) {
  std::ranges::fill(gradient, 0.0);
  double value = 0;
  for (std::size_t i = 0; i < pairs.wins.size(); ++i) {
    const std::size_t k = at(pairs.winner, i), l = at(pairs.loser, i);
    const double slope = pairs.wins[i] * expit(f[l] - f[k]);
    value += pairs.wins[i] * log_expit(f[k] - f[l]);
    gradient[k] += slope;
    gradient[l] -= slope;
  }
  return value;
}

// Tarjan's algorithm (SIAM J. Comput. 1972), with a stack of its own in place of recursion.
GroupsOfWins groups_of_wins(const PairedWins& pairs) {
  const std::size_t n = pairs.n_classes;
  std::vector<std::size_t> begin(n + 1), next(n), low(n), number(n), stack, path;
  for (const Index k : pairs.winner) ++begin[static_cast<std::size_t>(k) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<Index> beaten(pairs.wins.size());
  std::copy_n(begin.begin(), n, next.begin());
  for (std::size_t i = 0; i < beaten.size(); ++i) beaten[next[at(pairs.winner, i)]++] = pairs.loser[i];
  std::copy_n(begin.begin(), n, next.begin());
  std::vector<bool> is_open(n, false);
  GroupsOfWins found;
  std::size_t count = 0;  // numbers are given from 1 on; 0: not seen yet
  const auto open = [&](std::size_t k) {
    number[k] = low[k] = ++count;
    stack.push_back(k);
    path.push_back(k);
    is_open[k] = true;
  };
  for (std::size_t root = 0; root < n; ++root) {
    if (number[root] == 0) open(root);
    while (!path.empty()) {
      const std::size_t k = path.back();
      if (next[k] < begin[k + 1]) {
        const std::size_t l = at(beaten, next[k]++);
        if (number[l] == 0) {
          open(l);
        } else if (is_open[l]) {
          low[k] = std::min(low[k], number[l]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[k]);
      if (low[k] != number[k]) continue;
      auto first = stack.end();
      do --first;
      while (*first != k);
      if (std::find(first, stack.end(), 0) != stack.end()) {
        found.n_with_first = static_cast<std::size_t>(stack.end() - first);
      }
      for (auto one = first; one != stack.end(); ++one) is_open[*one] = false;
      stack.erase(first, stack.end());
      ++found.n_groups;
    }
  }
  return found;
}

std::vector<double> maximum_likelihood_scores(const PairedWins& pairs, double tol) {
  const std::size_t n = pairs.n_classes;
  std::vector<double> f(n), gradient(n), moved(n), slopes(n);
  double value = log_likelihood(pairs, f, gradient);
  while (true) {
    const std::vector<double> step = newton_step(Laplacian(pairs, f), gradient);
    const double size = largest(step);
    double t = size > longest_step ? longest_step / size : 1.0;
    for (;; t /= 2) {
      for (std::size_t k = 0; k < n; ++k) moved[k] = f[k] + t * step[k];
      const double there = log_likelihood(pairs, moved, slopes);
      // Close to the maximum the value rises by less than it rounds; that slopes halve shows the way there.
      const bool halves = largest(slopes) <= largest(gradient) / 2 && there >= value - rounding * std::fabs(value);
      const bool better = there > value || halves, ends = t * size <= tol;
      if (better) {
        f = moved;
        gradient = slopes;
        value = there;
      }
      if (ends) {
        const double mean = std::accumulate(f.begin(), f.end(), 0.0) / static_cast<double>(n);
        for (double& score : f) score -= mean;
        return f;
      }
      if (better) break;
    }
  }
}

}  // namespace manyclass
