// log p of utilities so far behind the largest that the integral over the maximum has a closed form.
//
// The quadrature takes the classes that are behind in groups, and such classes are groups of their own: all classes of
// a row would cost K^2. Beyond 2^50, distances of some units are lost in the rounding of the places, too.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "manyclass/math/noise.hpp"
#include "manyclass/math/root.hpp"
#include "manyclass/utility/maximum.hpp"

namespace manyclass {

template <class Noise>
class FarUtilities;

// The integrand f/F(t - c) e^L(t) is log-concave and, where c is far, nearly Gaussian about its mode: with the n
// utilities above the mode its logarithm falls like (n + 1) t^2 / 2. Laplace's rule leaves out less than a nat of
// distance^2 / 2, which is 1e8 at `distance`.
template <>
class FarUtilities<NormalNoise> {
 public:
  static constexpr double distance = 0x1p14;

  FarUtilities(const Maximum<NormalNoise>& maximum, std::span<const double>) : maximum_(maximum) {}

  double log_probability(double c) const {
    constexpr double half_log_two_pi = -NormalNoise::log_density_at_0;
    double mode = c, bend = 1;
    const Bracket bracket{c, 32};  // the maximum of 2^31 utilities at 0 is below
    const double rest = find_root(RootFinder::newton, bracket, c, 1e-9 * -c, [&](double t) {
      const auto d = maximum_.derivatives(t);
      const double own = NormalNoise::slope(t - c);
      mode = t;
      bend = -(d.curvature + NormalNoise::bend_of_bend(t - c, own));
      return Probe{-(d.slope + NormalNoise::bend(t - c, own)), bend};
    });
    mode += rest;
    return NormalNoise::log_slope(mode - c) + maximum_.log_cdf(mode) + half_log_two_pi - 0.5 * std::log(bend);
  }

 private:
  const Maximum<NormalNoise>& maximum_;
};

// Where t - c is large, f/F(t - c) = e^(c - t). So log p is c and the logarithm of an integral that c does not enter
// but by its own factor F, which cuts the plateau that reaches from the second of all utilities to the largest. The
// length of that plateau leaves out some nats, log K where many are at 0, of the 4e9 at `distance`.
template <>
class FarUtilities<LogisticNoise> {
 public:
  static constexpr double distance = 0x1p32;

  FarUtilities(const Maximum<LogisticNoise>&, std::span<const double> psi) : psi_(psi) {}

  double log_probability(double c) {
    if (plateau_ < 0) {
      double largest = -std::numeric_limits<double>::infinity(), second = largest;
      for (const double utility : psi_) {
        second = std::fmax(second, std::fmin(utility, largest));
        largest = std::fmax(largest, utility);
      }
      plateau_ = psi_.size() > 1 ? -second : 0;
    }
    return c + std::log1p(plateau_);
  }

 private:
  std::span<const double> psi_;
  double plateau_ = -1;  // not known
};

}  // namespace manyclass
