// See local_family.hpp.
#include "manyclass/exact/local_family.hpp"

#include <algorithm>
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

// The standard member of a family.
struct StandardMember {
  StandardDraw draw;
  double (*log_density)(double);
};

StandardMember standard_member(std::string_view family) {
  return with_part<StandardMember>(Alternatives<NoiseKind>{}, "local_family", family,
                                   []<class Noise>() { return StandardMember{Noise::standard, Noise::log_density}; });
}

// Nodes and weights of the trapezoidal rule for a standard draw v, for scales up to 2^level: the mean of g(mu + s v) is
// the sum of h phi(v_j) g(mu + s v_j) at v_j = j h, |v_j| <= reach.
//
// By Poisson's summation its error is the Fourier transform of phi g at multiples of 2 pi / h. Moving the path of that
// integral up or down by c, as far as phi g is analytic, shows it to be of order e^(-2 pi c / h). In v, log Phi(mu + s
// v + d) has its nearest singularity at 1 / s times the distance of that of log Phi, so h falls with the scale. The
// zeros of the normal Phi nearest to the real line are at 1.92 +- 2.82 i: e^(-2 pi 2.82 / 0.4) = 6e-20, and phi(9) =
// 1e-18. The logistic distribution and its density have poles at +- pi i: e^(-2 pi pi / 0.45) = 9e-20, and phi(44) =
// 8e-20.
GaussRule trapezoidal_rule(const StandardMember& member, int level) {
  const double h = std::ldexp(member.draw.spacing, -level);
  const auto n = static_cast<int>(std::ceil(member.draw.reach / h));
  GaussRule rule;
  for (int j = -n; j <= n; ++j) {
    rule.nodes.push_back(h * j);
    rule.weights.push_back(h * std::exp(member.log_density(h * j)));
  }
  return rule;
}

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
  constexpr double tolerance = 1e-9;
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
    const bool done = std::fabs(move) < tolerance && std::fabs(s - q.s) < tolerance;
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

// One point of utility_bounds.
template <class L>
double bound_with_slopes(L, std::span<const double> f, std::size_t y, double mu, double s, const Rule& rule,
                         std::span<double> gradient, std::span<double> parameters) {
  double value = std::log(s);
  parameters[0] = 0;
  parameters[1] = 1 / s;
  std::fill(gradient.begin(), gradient.end(), 0.0);
  for (std::size_t j = 0; j < rule.nodes.size(); ++j) {
    const double e = mu + s * rule.nodes[j], weight = rule.weights[j];
    double log_cdfs = 0, hazards = 0;
    for (std::size_t k = 0; k < f.size(); ++k) {
      if (k == y) continue;
      const double t = e + (f[y] - f[k]);
      const double hazard = L::hazard(t);
      log_cdfs += L::log_cdf(t);
      hazards += hazard;
      gradient[k] -= weight * hazard;
    }
    gradient[y] += weight * hazards;
    value += weight * (L::log_density(e) + log_cdfs);
    const double along = weight * (L::slope(e) + hazards);
    parameters[0] += along;
    parameters[1] += rule.nodes[j] * along;
  }
  return value;
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
    v[i] = member.draw.low +
           (member.draw.high - member.draw.low) * static_cast<double>(i) / static_cast<double>(n_points - 1);
    w[i] = std::exp(member.log_density(v[i]));
    sum += w[i];
  }
  for (double& weight : w) weight /= sum;
  return gauss_rule(v, w, static_cast<std::size_t>(n_nodes));
}

FamilyForNoise family_for_noise(const std::string& noise, const std::string& family, Index n_nodes, Index n_classes) {
  const StandardMember member = standard_member(family);
  FamilyForNoise made{
      rule_of_family(family, n_nodes > 0 ? n_nodes : member.draw.n_nodes), member.draw.entropy, 0, {0, 1}};
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
  const double entropy = standard_member(family).draw.entropy;
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

void utility_bounds(const std::string& noise, std::span<const double> scores, std::span<const Index> labels,
                    std::span<const double> mu, std::span<const double> s, int n_threads, Isa isa,
                    const BoundSlopes& out) {
  const std::size_t n = labels.size(), n_classes = n == 0 ? 0 : scores.size() / n;
  if (scores.size() != n * n_classes || mu.size() != n || s.size() != n || out.values.size() != n ||
      out.gradients.size() != scores.size() || out.parameters.size() != 2 * n) {
    throw std::invalid_argument("scores, labels, q and what is made of them do not fit each other");
  }
  const StandardMember member = standard_member(noise);
  std::vector<GaussRule> rules;  // of wide q, whose nodes lie farther apart, finer ones
  const auto level_of = [&](double scale) {
    return static_cast<std::size_t>(std::ceil(std::log2(std::fmax(scale, 1))));
  };
  for (std::size_t i = 0; i < n; ++i) {
    while (rules.size() <= level_of(s[i])) rules.push_back(trapezoidal_rule(member, static_cast<int>(rules.size())));
  }
  with_law(noise, [&](auto law) {
    parallel_for(n_threads, n, [&](std::size_t i) {
      const GaussRule& nodes = rules[level_of(s[i])];
      run_with(isa, [&] {
        out.values[i] = member.draw.entropy + bound_with_slopes(law, scores.subspan(i * n_classes, n_classes),
                                                                static_cast<std::size_t>(labels[i]), mu[i], s[i],
                                                                {nodes.nodes, nodes.weights},
                                                                out.gradients.subspan(i * n_classes, n_classes),
                                                                out.parameters.subspan(2 * i, 2));
      });
    });
  });
}

}  // namespace manyclass
