// The integrator of a row by noise: quadrature, or the softmax where the noise is Gumbel's.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

#include "manyclass/utility/row.hpp"

namespace manyclass {

// log p_k = psi_k - log sum_j e^psi_j
class SoftmaxRow {
 public:
  explicit SoftmaxRow(Isa) {}

  template <class Real>
  void set(std::span<const Real> psi, bool log) {
    log_ = log;
    psi_.assign(psi.begin(), psi.end());
    const double top = *std::max_element(psi_.begin(), psi_.end());
    double sum = 0;
    for (double& v : psi_) {
      v -= top;
      sum += std::exp(v);
    }
    const double log_sum = std::log(sum);
    for (double& v : psi_) v -= log_sum;
  }

  void all(std::span<double> out) const {
    for (std::size_t k = 0; k < psi_.size(); ++k) out[k] = log_ ? psi_[k] : std::exp(psi_[k]);
  }

  template <class Classes>
  void some(const Classes& classes, std::span<double> out) const {
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const double log_p = psi_[static_cast<std::size_t>(classes[i])];
      out[i] = log_ ? log_p : std::exp(log_p);
    }
  }

 private:
  bool log_ = false;
  std::vector<double> psi_;
};

template <class Noise>
using UtilityRowOf = std::conditional_t<std::is_same_v<Noise, GumbelNoise>, SoftmaxRow, UtilityRow<Noise>>;

}  // namespace manyclass
