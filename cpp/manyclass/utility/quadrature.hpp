// Probabilities that utility c is the largest, p(c) = integral of f(t - c) / F(t - c) e^L(t) dt over the value t of the
// maximum (Ruiz et al., ICML 2018, eq. (5), with t = eps + psi_k), by one trapezoidal rule for many c.
//
// The integrands are analytic around the real line and fall off at both ends, so the trapezoidal rule errs by e^(-2 pi
// a / h) with a the half-width of the strip of analyticity: halving h squares the error. Hence the number of nodes: the
// rule on the nodes and the rule on their midpoints differ by about the error d of spacing h, and their mean, which is
// the rule of spacing h / 2, errs by about d^2 / p. The spacing is halved until that is 1e-9 (of 1, or of p).
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "manyclass/math/root.hpp"
#include "manyclass/utility/maximum.hpp"

namespace manyclass {

// The largest utility is 0, here and below: distances, not places, then have the accuracy of a double.
template <class Noise>
class UtilityQuadrature {
 public:
  explicit UtilityQuadrature(const Maximum<Noise>& maximum) : maximum_(maximum) {}

  // p(c_i) to 1e-8 absolute. Where weights are given, which make sum_i w_i p(c_i) the sum over all classes, that sum is
  // 1 to 1e-8 too.
  void probabilities(std::span<const double> c, std::span<const double> weights, std::span<double> p) {
    // Beyond these ends lie 2e-12 and 1e-11 of the maximum's distribution.
    constexpr double log_left = -27;
    constexpr double log_right = -1e-11;
    // Where log F(max) = -1, |L| / L' is the scale on which the distribution falls on its steep side, the left: exactly
    // so for the Gumbel distribution, to which maxima tend. From 3/4 of it, one halving is usually enough.
    const auto [middle, scale] = steep_side();
    double h = 0.75 * scale;
    nodes_.clear();
    for (double t = middle;; t -= h) {
      const double log_cdf = maximum_.log_cdf(t);
      nodes_.push_back({t, log_cdf});
      if (log_cdf < log_left) break;
    }
    std::reverse(nodes_.begin(), nodes_.end());
    for (double t = middle + h;; t += h) {
      const double log_cdf = maximum_.log_cdf(t);
      nodes_.push_back({t, log_cdf});
      if (log_cdf > log_right) break;
    }
    sums_.assign(c.size(), 0.0);
    add(c, 0, nodes_.size());
    // At a 64th of the scale the error would be e^-100: rounding alone is left.
    for (const double finest = h / 64; h > finest; h /= 2) {
      std::swap(sums_, coarse_);
      sums_.assign(c.size(), 0.0);
      const std::size_t n = nodes_.size();
      for (std::size_t j = 0; j + 1 < n; ++j) {
        const double t = 0.5 * (nodes_[j].t + nodes_[j + 1].t);
        nodes_.push_back({t, maximum_.log_cdf(t)});
      }
      add(c, n, nodes_.size());
      double worst = 0;
      double mass = 0;
      for (std::size_t i = 0; i < c.size(); ++i) {
        const double difference = 0.5 * h * (coarse_[i] - sums_[i]);
        p[i] = 0.5 * h * (coarse_[i] + sums_[i]);
        worst = std::max(worst, difference * difference / std::max(p[i], 1e-300));
        if (!weights.empty()) mass += weights[i] * difference;
        sums_[i] += coarse_[i];
      }
      if (std::max(worst, mass * mass) <= tolerance) return;
      std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.t < b.t; });
    }
  }

  // log p(c_i), c in decreasing order; relative to p to 1e-8, down to p of 1e-300 and far below.
  //
  // The integrand of a class that is far behind is large where the maximum hardly ever is, so classes are taken in
  // groups: the foremost that is left chooses the nodes, and serves all those behind it whose integrands end inside.
  void log_probabilities(std::span<const double> c, std::span<double> log_p) {
    constexpr std::size_t block = 64;
    for (std::size_t next = 0; next < c.size();) {
      if (std::isinf(c[next])) {
        log_p[next] = c[next];
        ++next;
        continue;
      }
      const std::size_t leader = next;
      choose_nodes(c[leader]);
      std::size_t end = next;
      do {
        end = std::min(c.size(), next + block);
        const bool leads = next == leader;
        next += integrate_logs(c.subspan(next, end - next), log_p.subspan(next, end - next), leads);
      } while (next == end && next < c.size() && !std::isinf(c[next]));
    }
  }

 private:
  static constexpr double tolerance = 1e-9;
  static constexpr std::size_t most_nodes = 4096;

  struct Node {
    double t;
    double log_cdf;
  };

  struct Steep {
    double place, scale;
  };

  // A place near L = -1 and -L / L' there.
  Steep steep_side() const {
    // F(t) <= F of the foremost class; and K <= 2^31 classes at 0 have L(22) > -1 for the noise of heavier tails.
    const Bracket bracket{-1, 23};
    Steep at{};
    find_root(RootFinder::newton, bracket, 0, 0.1, [&](double t) {
      const auto [value, slope, curvature] = maximum_.derivatives(t);
      at = {t, -value / slope};
      return Probe{-std::log(-value), slope / -value};
    });
    return at;
  }

  // sums_i += sum_j F'/F(t_j - c_i) e^L(t_j), j in [first, last)
  void add(std::span<const double> c, std::size_t first, std::size_t last) {
    run_with(maximum_.isa(), [&] {
      double* sums = sums_.data();
      for (std::size_t j = first; j < last; ++j) {
        const double t = nodes_[j].t;
        const double cdf = vec::exp(nodes_[j].log_cdf);
        for (std::size_t i = 0; i < c.size(); ++i) sums[i] += cdf * Noise::slope(t - c[i]);
      }
    });
  }

  // log of the integrand, a concave function of t.
  double log_integrand(double t, double c) const { return Noise::log_slope(t - c) + maximum_.log_cdf(t); }

  // Nodes for the class at c: from where its integrand is e^-36 of its largest value to where it is again, or further.
  void choose_nodes(double c) {
    double slope = 0;
    double curvature = 0;
    const auto minus_slope = [&](double t) {
      const auto d = maximum_.derivatives(t);
      const double own = Noise::slope(t - c);
      slope = d.slope + Noise::bend(t - c, own);
      curvature = d.curvature + Noise::bend_of_bend(t - c, own);
      return Probe{-slope, -curvature};
    };
    Bracket bracket{c - 1, c + 1};
    for (double step = 1; minus_slope(bracket.low).value > 0; step *= 2) bracket.low -= step;
    for (double step = 1; minus_slope(bracket.high).value < 0; step *= 2) bracket.high += step;
    double mode = bracket.high;
    const double rest = find_root(RootFinder::newton, bracket, std::min(c + 1, bracket.high), 1e-3, [&](double t) {
      mode = t;
      return minus_slope(t);
    });
    mode += rest;
    const double width = 1 / std::sqrt(std::fabs(curvature));            // not of -0, whose root is -0
    const double scale = width < Noise::widest ? width : Noise::widest;  // also where the integrand is flat
    const double top = log_integrand(mode, c);
    const double left = end_of(c, mode, -scale, top);
    const double right = end_of(c, mode, scale, top);
    // A logistic class that is behind by d has a plateau d wide, and log p = log d - d: beyond some thousand nodes a
    // spacing that misses its edges is still good to 1e-6 of log p.
    const double wanted = std::fmax(1.0, std::ceil((right - left) / (0.75 * scale)));
    const double n = wanted < most_nodes ? wanted : most_nodes;
    // Nodes that rounding has made one, 10^16 widths behind, are as good as any: log p is the integrand's to 1e-16.
    const bool apart = right > left;
    spacing_ = apart ? (right - left) / n : scale;
    refine_ = apart && wanted < most_nodes;
    nodes_.clear();
    for (double j = 0; j <= n; ++j) {
      const double t = apart ? left + j * spacing_ : mode;
      nodes_.push_back({t, maximum_.log_cdf(t)});
    }
    n_coarse_ = nodes_.size();
  }

  // Where the integrand is below e^-36 of its top: doubled steps outwards, so at most twice as far as necessary.
  double end_of(double c, double mode, double step, double top) const {
    double t = mode + 4 * step;
    for (; log_integrand(t, c) > top - 36; step *= 2) t += 2 * step;
    return t;
  }

  // Integrates the first classes of c at the nodes, and says how many of them end inside. The class that chose the
  // nodes does, unless rounding has made its nodes one.
  std::size_t integrate_logs(std::span<const double> c, std::span<double> log_p, bool from_leader) {
    std::size_t n_inside = 0;
    for (; n_inside < c.size(); ++n_inside) {
      if (!integrate_log(c[n_inside], from_leader && n_inside == 0, log_p[n_inside])) break;
    }
    return n_inside;
  }

  bool integrate_log(double c, bool leads, double& log_p) {
    find_values(c, 0, n_coarse_);
    const double top = *std::max_element(values_.begin(), values_.end());
    // The rounding of L is what is left of accuracy where L is large.
    const double rounding = 1e-15 * std::fabs(top);
    // Ten times that, lest an integrand that grows beyond the ends should seem to fall there.
    if (!leads && !(std::max(values_.front(), values_.back()) < top - 30 - 10 * rounding)) return false;
    // There values at midpoints exceed the top by rounding alone, and its exponential may be beyond a double; an
    // infinite top is that of distances whose squares overflow.
    if (rounding > 1) {
      log_p = top;
      return true;
    }
    double sum = sum_relative_to(top);
    double h = spacing_;
    std::size_t first = n_coarse_;
    for (std::size_t n = n_coarse_ - 1; refine_ && h > spacing_ / 64; n *= 2, h /= 2) {
      if (nodes_.size() < first + n) add_midpoints(n, h);
      find_values(c, first, n);
      const double middle = sum_relative_to(top);
      first += n;
      const double difference = std::fabs(sum - middle) / (sum + middle);
      sum += middle;
      if (difference * difference <= tolerance + rounding * rounding) {
        h /= 2;
        break;
      }
    }
    log_p = top + std::log(sum * h);
    return true;
  }

  // The logarithms of the integrand of c at n nodes.
  void find_values(double c, std::size_t first, std::size_t n) {
    values_.resize(n);
    run_with(maximum_.isa(), [&] {
      const Node* nodes = nodes_.data() + first;
      double* values = values_.data();
      for (std::size_t j = 0; j < n; ++j) values[j] = Noise::log_slope(nodes[j].t - c) + nodes[j].log_cdf;
    });
  }

  double sum_relative_to(double top) const {
    double sum = 0;
    for (const double v : values_) sum += std::exp(v - top);
    return sum;
  }

  void add_midpoints(std::size_t n, double h) {
    const double left = nodes_.front().t + 0.5 * h;
    for (std::size_t j = 0; j < n; ++j) {
      const double t = left + static_cast<double>(j) * h;
      nodes_.push_back({t, maximum_.log_cdf(t)});
    }
  }

  const Maximum<Noise>& maximum_;
  std::vector<Node> nodes_;
  std::vector<double> sums_, coarse_, values_;
  std::size_t n_coarse_ = 0;  // the first nodes; then come the midpoints of each halving
  double spacing_ = 0;
  bool refine_ = true;
};

}  // namespace manyclass
