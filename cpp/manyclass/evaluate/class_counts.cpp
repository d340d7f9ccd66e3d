// See class_counts.hpp.
#include "manyclass/evaluate/class_counts.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

double maximum_one_vs_each(std::span<const double> counts) {
  // By distinct count: many classes have the same one, so that 10^4 classes are far fewer than 10^8 pairs.
  std::map<double, double> classes_of;
  for (const double n : counts) classes_of[n] += n > 0 ? 1 : 0;
  double total = 0;
  for (const auto& [size, of_that_size] : classes_of) {
    if (size <= 0) continue;
    double each = std::numbers::ln2;  // without the pair of a class with itself
    for (const auto& [other, of_other] : classes_of) {
      if (other > 0) each += of_other * std::log(size / (size + other));
    }
    total += of_that_size * size * each;
  }
  return total;
}

double largest_log_normalizer(double max_norm, double largest_x, double n_classes) {
  return log_add(0, std::log(n_classes - 1) + 2 * largest_x * max_norm);
}

DoubleSumConstants double_sum_constants(std::span<const double> counts, double largest_x, double alpha,
                                        std::optional<double> max_norm) {
  const auto n_classes = static_cast<double>(counts.size());
  const double n_samples = std::accumulate(counts.begin(), counts.end(), 0.0);
  const auto is_count = [](double n) { return n >= 0 && std::isfinite(n); };
  if (counts.size() < 2 || !std::ranges::all_of(counts, is_count) || !(n_samples >= 1)) {
    throw std::invalid_argument(
        "counts must have one number >= 0 for each of at least two classes, and at least one point");
  }
  DoubleSumConstants found;
  found.weight_norm = max_norm.value_or(std::sqrt(2 * std::log(n_classes) / alpha));
  found.log_normalizer = largest_log_normalizer(found.weight_norm, largest_x, n_classes);
  const double rarest = *std::ranges::min_element(counts);
  const double weight_of_ridge = n_samples / (rarest + (n_samples - rarest) / (n_classes - 1));
  const double largest_sum = std::exp(found.log_normalizer);  // of e^(z_k - z_y)
  const double of_row = largest_sum * largest_x + alpha * weight_of_ridge * found.weight_norm;
  found.gradient_norm = std::max(1.0, largest_sum - 1) + 2 * of_row;
  found.strong_convexity = std::min(std::exp(-found.log_normalizer) / n_samples, alpha);
  return found;
}

}  // namespace manyclass
