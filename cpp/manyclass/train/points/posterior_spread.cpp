// See posterior_spread.hpp.
#include "manyclass/train/points/posterior_spread.hpp"

#include <cmath>
#include <stdexcept>

namespace manyclass {

double end_posterior_pass(const PosteriorSpread& s) {
  const std::size_t size = s.means.size();
  if (s.collected.size() != size || s.precisions.size() != size || s.variances.size() != size || s.width == 0 ||
      size % s.width != 0 || s.n_used > s.width) {
    throw std::invalid_argument("the variances do not fit the means");
  }
  const double gain = std::pow(1 + s.n_pass, -0.9);
  const auto kept = static_cast<float>(1 - gain), added = static_cast<float>(std::fmin(gain * s.mean_weight, s.most));
  const auto most = static_cast<float>(s.most), prior = static_cast<float>(s.prior);
  double divergence = 0;
  for (std::size_t i = 0; i < size; ++i) {
    s.precisions[i] = std::fmin(s.precisions[i] * kept + added * s.collected[i], most);
    s.collected[i] = 0;
    s.variances[i] = 1 / (prior + s.precisions[i]);
    if (i % s.width >= s.n_used) continue;
    const auto m = static_cast<double>(s.means[i]), v = static_cast<double>(s.variances[i]);
    divergence += 0.5 * (s.prior * (m * m + v) - 1 - std::log(s.prior * v));
  }
  return divergence;
}

}  // namespace manyclass
