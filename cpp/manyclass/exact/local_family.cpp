// See local_family.hpp.
#include "manyclass/exact/local_family.hpp"

#include <cmath>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/math/noise.hpp"
#include "manyclass/objective/utility_noise.hpp"

namespace manyclass {

namespace {

// What is asked of the noise in double precision: of Phi by its distribution function, of phi as steps do.
template <class Distribution, class Utility>
struct Law {
  static double log_cdf(double t) { return Distribution::log_cdf(t); }
  static double hazard(double t) { return Distribution::slope(t); }
  static double log_density(double e) { return Utility::log_density(e); }
  static double slope(double e) { return Utility::slope(e); }
  static double move(double slope, double variance) { return Utility::move(1, slope, variance); }
};

template <class F>
void with_law(const std::string& noise, const F& f) {
  with_part<void>(Alternatives<NoiseKind>{}, "noise", noise, [&]<class Noise>() {
    if constexpr (std::is_same_v<Noise, GumbelNoise>) {
      throw std::invalid_argument("noise is 'gumbel', whose q has a closed form; it must be another");
    } else {
      f(Law<Noise, UtilityNoise<Noise>>{});
    }
  });
}

struct Moments {
  explicit Moments(const Rule& rule) {
    for (std::size_t j = 0; j < rule.nodes.size(); ++j) mean += rule.weights[j] * rule.nodes[j];
    for (std::size_t j = 0; j < rule.nodes.size(); ++j) variance += rule.weights[j] * rule.nodes[j] * rule.nodes[j];
    variance -= mean * mean;
  }
  double mean = 0, variance = 0;
};

template <class Term>
double counted(std::span<const double> d, std::span<const double> counts, double e, const Term& term) {
  double sum = 0;
  for (std::size_t k = 0; k < d.size(); ++k) sum += counts[k] * term(e - d[k]);
  return sum;
}

template <class L>
LocationScale best_member(L, std::span<const double> d, std::span<const double> counts, const Rule& rule,
                          LocationScale q) {
  constexpr int most_steps = 200;
  constexpr double settled = 1e-9;
  const Moments v(rule);
  for (int step = 0; step < most_steps; ++step) {
    double slope = 0, narrowing = 0;
    for (std::size_t j = 0; j < rule.nodes.size(); ++j) {
      const double e = q.mu + q.s * rule.nodes[j];
      const double g = rule.weights[j] * (L::slope(e) + counted(d, counts, e, L::hazard));
      slope += g;
      narrowing -= g * (rule.nodes[j] - v.mean);
    }
    const double s = 1 / std::sqrt(0.5 / (q.s * q.s) + 0.5 * narrowing / q.s);
    const double move = (q.s - s) * v.mean + L::move(slope, s * s * v.variance);
    const bool done = std::fabs(move) < settled && std::fabs(s - q.s) < settled;
    q = {q.mu + move, s};
    if (done) break;
  }
  return q;
}

template <class L>
double bound(L, std::span<const double> d, std::span<const double> counts, const Rule& rule, LocationScale q) {
  double sum = std::log(q.s);
  for (std::size_t j = 0; j < rule.nodes.size(); ++j) {
    const double e = q.mu + q.s * rule.nodes[j];
    sum += rule.weights[j] * (L::log_density(e) + counted(d, counts, e, L::log_cdf));
  }
  return sum;
}

void check_rule(const Rule& rule) {
  if (rule.nodes.empty() || rule.nodes.size() != rule.weights.size()) {
    throw std::invalid_argument("a rule has " + std::to_string(rule.nodes.size()) + " nodes and " +
                                std::to_string(rule.weights.size()) + " weights; it must have as many, and one");
  }
}

}  // namespace

void best_members(const std::string& noise, const Margins& margins, const Rule& rule, LocationScale start,
                  int n_threads, Isa isa, std::span<double> mu, std::span<double> s) {
  check_rule(rule);
  const std::size_t n = mu.size(), m = margins.n_classes;
  if (s.size() != n || margins.d.size() != n * m || margins.counts.size() != n * m) {
    throw std::invalid_argument("margins, counts and members do not fit each other");
  }
  with_law(noise, [&](auto law) {
    parallel_for(n_threads, n, [&](std::size_t i) {
      run_with(isa, [&] {
        const LocationScale q =
            best_member(law, margins.d.subspan(i * m, m), margins.counts.subspan(i * m, m), rule, start);
        mu[i] = q.mu;
        s[i] = q.s;
      });
    });
  });
}

void best_bounds(const std::string& noise, std::span<const float> scores, std::span<const Index> labels,
                 const Rule& rule, const Rule& fine, LocationScale start, int n_threads, Isa isa,
                 std::span<double> bounds) {
  check_rule(rule);
  check_rule(fine);
  const std::size_t n = labels.size(), n_classes = n == 0 ? 0 : scores.size() / n;
  if (scores.size() != n * n_classes || bounds.size() != n) {
    throw std::invalid_argument("scores, labels and bounds do not fit each other");
  }
  for (const Index y : labels) {
    if (y < 0 || static_cast<std::size_t>(y) >= n_classes) {
      throw std::invalid_argument("label " + std::to_string(y) + " is outside [0, " + std::to_string(n_classes) + ")");
    }
  }
  with_law(noise, [&](auto law) {
    parallel_for(n_threads, n, [&](std::size_t i) {
      const std::span<const float> z = scores.subspan(i * n_classes, n_classes);
      const auto y = static_cast<std::size_t>(labels[i]);
      std::vector<double> d(n_classes), counts(n_classes, 1.0);
      for (std::size_t k = 0; k < n_classes; ++k) d[k] = static_cast<double>(z[k]) - static_cast<double>(z[y]);
      counts[y] = 0;
      run_with(isa, [&] { bounds[i] = bound(law, d, counts, fine, best_member(law, d, counts, rule, start)); });
    });
  });
}

}  // namespace manyclass
