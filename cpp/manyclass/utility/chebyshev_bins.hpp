// Many utilities as few weighted points: sums over classes of a smooth function of psi_k at a cost that K does not
// enter.
//
// In a bin of width 1/2 every function of psi that the integrals need is replaced by its interpolant at 12 Chebyshev
// nodes. Then sum_k g(psi_k) = sum_i w_i g(c_i) with w_i = sum_k l_i(psi_k), l_i Lagrange's polynomials; and g at all
// classes follows from g at the nodes. The singularities of log F and of its derivative lie 2.8 (normal) and pi
// (logistic) off the real line, so the interpolant of log F converges like 11^-12 = 3e-13 or faster; in the upper tail
// log F falls like e^(-a psi), and the Chebyshev coefficient I_12(a / 4) / I_0(a / 4) left out is 7e-12 of it at a = 5.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

class ChebyshevBins {
 public:
  static constexpr std::size_t order = 12;

  // psi <= 0 with maximum 0. Classes further behind than `reach` stay points of their own, or are left out.
  void assign(std::span<const double> psi, bool keep_far) {
    psi_ = psi;
    points_.clear();
    weights_.clear();
    std::array<std::size_t, n_bins> counts{};
    std::size_t n_far = 0;
    for (const double v : psi) {
      if (v > -reach) {
        ++counts[bin_of(v)];
      } else {
        ++n_far;
      }
    }
    std::size_t n_used = 0;
    for (std::size_t b = 0; b < n_bins; ++b) first_node_[b] = counts[b] > 0 ? order * n_used++ : none;
    // Above half as many nodes as classes, the two passes over the classes cost more than they save.
    binned_ = 2 * order * n_used < psi.size() - n_far;
    if (binned_) {
      add_nodes(order * n_used);
    } else {
      for (const double v : psi) {
        if (v > -reach) points_.push_back(v);
      }
      weights_.assign(points_.size(), 1.0);
    }
    if (keep_far && n_far > 0) {
      for (const double v : psi) {
        if (v <= -reach && std::isfinite(v)) points_.push_back(v);
      }
      weights_.resize(points_.size(), 1.0);
    }
  }

  std::span<const double> points() const { return points_; }
  std::span<const double> weights() const { return weights_; }
  bool binned() const { return binned_; }
  bool is_far(std::size_t k) const { return !(psi_[k] > -reach); }

  // The nodes that stand for the classes, when binned.
  std::span<const double> nodes() const { return std::span(points_).first(n_nodes_); }

  // g(psi_k) of a class that is not far, given g at the nodes by to_coefficients.
  double interpolate(std::span<const double> coefficients, std::size_t k) const {
    const std::size_t b = bin_of(psi_[k]);
    const double s = position(psi_[k], b);
    const double* a = coefficients.data() + first_node_[b];
    // Clenshaw's rule
    double next = 0;
    double after = 0;
    for (std::size_t j = order - 1; j > 0; --j) {
      const double now = a[j] + 2 * s * next - after;
      after = next;
      next = now;
    }
    return a[0] + s * next - after;
  }

  // Values at the nodes, replaced by the Chebyshev coefficients of each bin.
  void to_coefficients(std::span<double> values) const {
    std::array<double, order> in{};
    for (std::size_t first = 0; first < n_nodes_; first += order) {
      std::copy_n(values.data() + first, order, in.data());
      for (std::size_t j = 0; j < order; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < order; ++i) sum += cosine(i, j) * in[i];
        values[first + j] = sum * (j == 0 ? 1.0 : 2.0) / order;
      }
    }
  }

 private:
  static constexpr double width = 0.5;
  static constexpr std::size_t n_bins = 128;
  static constexpr double reach = width * n_bins;
  static constexpr std::size_t none = ~std::size_t{0};

  // T_j at node i
  static double cosine(std::size_t i, std::size_t j) {
    static const auto table = [] {
      std::array<std::array<double, order>, order> t{};
      for (std::size_t a = 0; a < order; ++a) {
        for (std::size_t b = 0; b < order; ++b) {
          t[a][b] = std::cos(std::numbers::pi * static_cast<double>((2 * a + 1) * b) / (2.0 * order));
        }
      }
      return t;
    }();
    return table[i][j];
  }

  static std::size_t bin_of(double psi) { return std::min(static_cast<std::size_t>(-psi / width), n_bins - 1); }
  static double centre(std::size_t b) { return -width * (static_cast<double>(b) + 0.5); }
  static double position(double psi, std::size_t b) { return (psi - centre(b)) * (2 / width); }

  void add_nodes(std::size_t n) {
    n_nodes_ = n;
    points_.resize(n);
    weights_.assign(n, 0.0);
    // First the moments sum_k T_j(s_k), then w_i = sum_j' (2 / order) T_j(s_i) moment_j.
    for (const double v : psi_) {
      if (!(v > -reach)) continue;
      const std::size_t b = bin_of(v);
      const double s = position(v, b);
      double* moments = weights_.data() + first_node_[b];
      double before = 1;
      double now = s;
      moments[0] += 1;
      for (std::size_t j = 1; j < order; ++j) {
        moments[j] += now;
        const double next = 2 * s * now - before;
        before = now;
        now = next;
      }
    }
    std::array<double, order> moments{};
    for (std::size_t b = 0; b < n_bins; ++b) {
      if (first_node_[b] == none) continue;
      std::copy_n(weights_.data() + first_node_[b], order, moments.data());
      for (std::size_t i = 0; i < order; ++i) {
        double sum = moments[0];
        for (std::size_t j = 1; j < order; ++j) sum += 2 * cosine(i, j) * moments[j];
        weights_[first_node_[b] + i] = sum / order;
        points_[first_node_[b] + i] = centre(b) + width / 2 * cosine(i, 1);
      }
    }
  }

  std::span<const double> psi_;
  std::vector<double> points_, weights_;
  std::array<std::size_t, n_bins> first_node_{};
  std::size_t n_nodes_ = 0;
  bool binned_ = false;
};

}  // namespace manyclass
