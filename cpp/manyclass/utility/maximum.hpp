// The distribution of the largest of K utilities psi_k + eps_k with independent noise: log P(max <= t) = L(t) =
// sum_k log F(t - psi_k), and its first two derivatives.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "manyclass/core/simd.hpp"
#include "manyclass/math/noise.hpp"

namespace manyclass {

// sum_j w_j log F(t - c_j) over points c_j: the classes with w = 1, or fewer points that stand for them
// (chebyshev_bins.hpp).
template <class Noise>
class Maximum {
 public:
  explicit Maximum(Isa isa) : isa_(isa) {}

  struct Derivatives {
    double value, slope, curvature;
  };

  // Rounded up to whole vectors by points at -infinity, whose log F is 0.
  void set(std::span<const double> points, std::span<const double> weights) {
    const std::size_t padded = (points.size() + lanes - 1) / lanes * lanes;
    points_.assign(padded, -std::numeric_limits<double>::infinity());
    weights_.assign(padded, 0.0);
    std::copy(points.begin(), points.end(), points_.begin());
    std::copy(weights.begin(), weights.end(), weights_.begin());
  }

  double log_cdf(double t) const {
    Lanes sums{};
    run_with(isa_, [&] {
      const double* c = points_.data();
      const double* w = weights_.data();
      for (std::size_t j = 0; j < points_.size(); j += lanes) {
        for (std::size_t l = 0; l < lanes; ++l) sums[l] += w[j + l] * Noise::log_cdf(t - c[j + l]);
      }
    });
    return total(sums);
  }

  Derivatives derivatives(double t) const {
    Lanes values{};
    Lanes slopes{};
    Lanes curvatures{};
    run_with(isa_, [&] {
      const double* c = points_.data();
      const double* w = weights_.data();
      for (std::size_t j = 0; j < points_.size(); j += lanes) {
        for (std::size_t l = 0; l < lanes; ++l) {
          const double x = t - c[j + l];
          const double slope = Noise::slope(x);
          values[l] += w[j + l] * Noise::log_cdf(x);
          slopes[l] += w[j + l] * slope;
          curvatures[l] += w[j + l] * (slope > 0 ? slope * Noise::bend(x, slope) : 0.0);
        }
      }
    });
    return {total(values), total(slopes), total(curvatures)};
  }

  Isa isa() const { return isa_; }

 private:
  // Running sums that the compiler may vectorise without reordering a sum.
  static constexpr std::size_t lanes = 16;
  using Lanes = std::array<double, lanes>;

  static double total(const Lanes& sums) {
    double sum = 0;
    for (const double s : sums) sum += s;
    return sum;
  }

  Isa isa_;
  std::vector<double> points_, weights_;
};

}  // namespace manyclass
