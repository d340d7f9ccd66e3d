// See local_family.hpp.
#include "manyclass/exact/local_family.hpp"

#include <cmath>
#include <stdexcept>
#include <string_view>
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

// The standard member of a family.
struct StandardMember {
  double (*log_density)(double);
  double entropy;
  double low, high;  // beyond them even its 62nd moment has nothing left
  Index n_nodes;     // see family_for_noise
};

StandardMember standard_member(std::string_view family) {
  constexpr double half_log_2_pi = -NormalNoise::log_density_at_0, euler_gamma = 0.57721566490153286061;
  return with_part<StandardMember>(Alternatives<NoiseKind>{}, "local_family", family, [&]<class Noise>() {
    if constexpr (std::is_same_v<Noise, NormalNoise>) {
      return StandardMember{Noise::log_density, half_log_2_pi + 0.5, -20, 20, 3};
    } else if constexpr (std::is_same_v<Noise, LogisticNoise>) {
      return StandardMember{Noise::log_density, 2, -200, 200, 5};
    } else {
      return StandardMember{Noise::log_density, 1 + euler_gamma, -6, 200, 4};
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

GaussRule rule_of_family(const std::string& family, Index n_nodes) {
  constexpr std::size_t n_points = 10001;  // of the trapezoidal rule, which is exponentially accurate
  if (n_nodes < 1) throw std::invalid_argument("a rule needs a node");
  const StandardMember member = standard_member(family);
  std::vector<double> v(n_points), w(n_points);
  double sum = 0;
  for (std::size_t i = 0; i < n_points; ++i) {
    v[i] = member.low + (member.high - member.low) * static_cast<double>(i) / static_cast<double>(n_points - 1);
    w[i] = std::exp(member.log_density(v[i]));
    sum += w[i];
  }
  for (double& weight : w) weight /= sum;
  return gauss_rule(v, w, static_cast<std::size_t>(n_nodes));
}

FamilyForNoise family_for_noise(const std::string& noise, const std::string& family, Index n_nodes, Index n_classes) {
  const StandardMember member = standard_member(family);
  FamilyForNoise made{rule_of_family(family, n_nodes > 0 ? n_nodes : member.n_nodes), member.entropy, 0, {0, 1}};
  const Rule rule{made.rule.nodes, made.rule.weights};
  with_law(noise, [&](auto law) {
    const double none[] = {0}, wrong[] = {static_cast<double>(n_classes - 1)};
    made.largest_scale = best_member(law, none, none, rule, {0, 1}).s;
    made.start = best_member(law, none, wrong, rule, {0, 1});
  });
  return made;
}

void best_bounds(const std::string& noise, const std::string& family, std::span<const float> scores,
                 std::span<const Index> labels, const Rule& rule, LocationScale start, int n_threads, Isa isa,
                 std::span<double> bounds) {
  constexpr Index fine_nodes = 41;
  const GaussRule nodes = rule_of_family(family, fine_nodes);
  const Rule fine{nodes.nodes, nodes.weights};
  const double entropy = standard_member(family).entropy;
  check_rule(rule);
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
      run_with(isa,
               [&] { bounds[i] = entropy + bound(law, d, counts, fine, best_member(law, d, counts, rule, start)); });
    });
  });
}

}  // namespace manyclass
