// The explicit step: p = eta times the gradient at the old scores.
#pragma once

#include "manyclass/objective/point.hpp"

namespace manyclass {

template <Objective Function>
struct Sgd {
  static constexpr bool shrinks_first = false;  // forward-backward: the gradient is taken before the ridge shrinks
  Function objective;

  Move operator()(const SampledPoint& point, double& u, std::span<float> p, std::span<float>) const {
    const Gradient g = objective.gradient(point, u, p);
    const auto eta = static_cast<float>(point.eta);
    for (std::size_t k = 0; k < point.size(); ++k) p[k] *= eta;
    u -= point.eta_u * g.u;
    return {point.eta * g.label, point.eta * g.total, g.loss};
  }
};

}  // namespace manyclass
