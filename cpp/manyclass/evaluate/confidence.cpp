// See confidence.hpp.
#include "manyclass/evaluate/confidence.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace manyclass {

namespace {

constexpr double z = 1.959963984540054;  // beyond which 2.5 % of a normal distribution lie

// The shares p whose score test does not reject the share that was seen, |share - p| <= z sqrt(p (1 - p) / n).
void add_interval(double n, ReliabilityBin& bin) {
  const double p = bin.share, middle = p + z * z / (2 * n);
  const double reach = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  bin.low = p == 0 ? 0.0 : (middle - reach) / (1 + z * z / n);
  bin.high = p == 1 ? 1.0 : (middle + reach) / (1 + z * z / n);
}

}  // namespace

std::vector<ReliabilityBin> reliability_bins(std::span<const double> confidence, std::span<const std::uint8_t> right,
                                             std::size_t n_bins) {
  const std::size_t n = confidence.size();
  if (right.size() != n || n_bins < 1 || n_bins > n) throw std::invalid_argument("the bins do not fit the predictions");
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return confidence[i]; });
  std::vector<ReliabilityBin> bins(n_bins);
  auto next = order.begin();
  for (std::size_t b = 0; b < n_bins; ++b) {
    const std::size_t size = n / n_bins + (b < n % n_bins ? 1 : 0);
    for (std::size_t i = 0; i < size; ++i, ++next) {
      bins[b].confidence += confidence[*next];
      bins[b].share += right[*next] != 0 ? 1 : 0;
    }
    bins[b].confidence /= static_cast<double>(size);
    bins[b].share /= static_cast<double>(size);
    add_interval(static_cast<double>(size), bins[b]);
  }
  return bins;
}

std::vector<Offset> most_confused(std::span<const Offset> labels, std::span<const Offset> predictions,
                                  std::size_t most) {
  if (labels.size() != predictions.size()) throw std::invalid_argument("labels and predictions differ in length");
  std::map<std::pair<Offset, Offset>, std::size_t> times;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != predictions[i]) ++times[{labels[i], predictions[i]}];
  }
  std::vector<std::pair<std::pair<Offset, Offset>, std::size_t>> pairs(times.begin(), times.end());
  std::ranges::stable_sort(pairs, std::ranges::greater(), [](const auto& pair) { return pair.second; });
  std::vector<Offset> chosen;
  for (const auto& [pair, n] : pairs) {
    std::vector<Offset> more;
    for (const Offset one : {pair.first, pair.second}) {
      if (std::ranges::find(chosen, one) == chosen.end()) more.push_back(one);
    }
    if (chosen.size() + more.size() <= most) chosen.insert(chosen.end(), more.begin(), more.end());
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace manyclass
