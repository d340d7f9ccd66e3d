// Choice probabilities of one row of mean utilities psi under normal or logistic noise.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "manyclass/utility/chebyshev_bins.hpp"
#include "manyclass/utility/far.hpp"
#include "manyclass/utility/quadrature.hpp"

namespace manyclass {

// Buffers that serve row after row.
template <class Noise>
class UtilityRow {
 public:
  explicit UtilityRow(Isa isa) : maximum_(isa) {}

  // A value of psi that is not finite makes all probabilities NaN. Classes more than 64 behind the foremost change no
  // probability by 1e-8, but some logarithms.
  template <class Real>
  void set(std::span<const Real> psi, bool log) {
    log_ = log;
    finite_ = std::all_of(psi.begin(), psi.end(), [](Real v) { return std::isfinite(v); });
    if (!finite_) return;
    const auto top = static_cast<double>(*std::max_element(psi.begin(), psi.end()));
    psi_.resize(psi.size());
    for (std::size_t k = 0; k < psi.size(); ++k) psi_[k] = static_cast<double>(psi[k]) - top;
    bins_.assign(psi_, log);
    maximum_.set(bins_.points(), bins_.weights());
  }

  // p, or log p, of every class.
  void all(std::span<double> out) {
    if (!finite_) return fill_nan(out);
    if (!bins_.binned()) return integrate(psi_, bins_.weights().size() == psi_.size() ? bins_.weights() : none(), out);
    const std::span<const double> nodes = bins_.nodes();
    values_.resize(nodes.size());
    integrate(nodes, log_ ? none() : bins_.weights().first(nodes.size()), values_);
    bins_.to_coefficients(values_);
    far_.clear();
    for (std::size_t k = 0; k < psi_.size(); ++k) {
      if (bins_.is_far(k)) {
        far_.push_back(k);
      } else {
        out[k] = bins_.interpolate(values_, k);
        if (!log_) out[k] = std::max(out[k], 0.0);
      }
    }
    if (far_.empty()) return;
    places_.clear();
    for (const std::size_t k : far_) places_.push_back(psi_[k]);
    values_.resize(far_.size());
    integrate(places_, none(), values_);
    for (std::size_t i = 0; i < far_.size(); ++i) out[far_[i]] = values_[i];
  }

  // p, or log p, of some classes.
  template <class Classes>
  void some(const Classes& classes, std::span<double> out) {
    if (!finite_) return fill_nan(out);
    chosen_.clear();
    for (const auto k : classes) chosen_.push_back(psi_[static_cast<std::size_t>(k)]);
    integrate(chosen_, none(), out);
  }

  // log of the importance-sampled p(k) with the proposal N(5, 5^2), given draws from N(0, 1) (Ruiz et al.,
  // section 4.2).
  template <class Normals>
  double sampled(Index k, int n_samples, Normals&& normal) const {
    constexpr double mean = 5;
    constexpr double deviation = 5;
    const double psi = psi_[static_cast<std::size_t>(k)];
    double top = -std::numeric_limits<double>::infinity();
    double sum = 0;
    for (int s = 0; s < n_samples; ++s) {
      const double u = normal();
      const double eps = mean + deviation * u;
      const double log_proposal = NormalNoise::log_density(u) - std::log(deviation);
      const double log_weight =
          Noise::log_density(eps) - log_proposal + maximum_.log_cdf(eps + psi) - Noise::log_cdf(eps);
      if (std::isinf(log_weight) || std::isnan(log_weight)) continue;  // a weight of 0
      if (log_weight > top) {
        sum *= std::exp(top - log_weight);
        top = log_weight;
      }
      sum += std::exp(log_weight - top);
    }
    return top + std::log(sum / n_samples);
  }

 private:
  static void fill_nan(std::span<double> out) {
    std::fill(out.begin(), out.end(), std::numeric_limits<double>::quiet_NaN());
  }

  static std::span<const double> none() { return {}; }

  void integrate(std::span<const double> c, std::span<const double> weights, std::span<double> out) {
    UtilityQuadrature<Noise> quadrature(maximum_);
    if (!log_) return quadrature.probabilities(c, weights, out);
    order_.resize(c.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return c[a] > c[b]; });
    sorted_.resize(c.size());
    logs_.resize(c.size());
    for (std::size_t i = 0; i < c.size(); ++i) sorted_[i] = c[order_[i]];
    std::size_t n_near = 0;
    while (n_near < c.size() && sorted_[n_near] > -FarUtilities<Noise>::distance) ++n_near;
    quadrature.log_probabilities(std::span(sorted_).first(n_near), std::span(logs_).first(n_near));
    FarUtilities<Noise> far(maximum_, psi_);
    for (std::size_t i = n_near; i < c.size(); ++i) {
      logs_[i] = std::isinf(sorted_[i]) ? sorted_[i] : far.log_probability(sorted_[i]);
    }
    for (std::size_t i = 0; i < c.size(); ++i) out[order_[i]] = logs_[i];
  }

  bool log_ = false;
  bool finite_ = false;
  ChebyshevBins bins_;
  Maximum<Noise> maximum_;
  std::vector<double> psi_, values_, places_, chosen_, sorted_, logs_;
  std::vector<std::size_t> order_, far_;
};

}  // namespace manyclass
