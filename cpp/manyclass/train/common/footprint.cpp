// Bytes of a training: see the header.
#include "manyclass/train/common/footprint.hpp"

#include <algorithm>
#include <cmath>

#include "manyclass/weights/class_range.hpp"

namespace manyclass {

namespace {

constexpr double beside = 128 << 20;
constexpr double at_once = 3, longer = 1.5;  // windows in memory; rows against the mean of the first ones
constexpr double of_value = 64, per_row = 128, of_feature = 64, of_class = 64;
constexpr std::int64_t least_features = 64;  // of hashed ones: with fewer nothing is told apart
constexpr double for_windows = 0.25;         // of the memory, where features are hashed

double padded(std::int64_t n) {
  constexpr auto line = static_cast<std::int64_t>(line_floats);
  return static_cast<double>((n + line - 1) / line * line);
}

}  // namespace

double Footprint::of_model() const {
  const auto features = static_cast<double>(n_features), classes = static_cast<double>(n_classes);
  const double matrices = dim ? (features + classes) * padded(*dim + 1)
                              : std::max(features * padded(n_classes), classes * padded(n_features + 1));
  return 4 * static_cast<double>(copies) * matrices + of_feature * features + of_class * classes;
}

double Footprint::of_row() const {
  return at_once * static_cast<double>(window) * row * longer + of_value * stored + per_row;
}

double Footprint::total(std::int64_t rows) const { return of_model() + static_cast<double>(rows) * of_row() + beside; }

Footprint Footprint::with_features(std::int64_t n) const {
  Footprint found = *this;
  found.n_features = n;
  return found;
}

double Footprint::least(std::int64_t rows) const {
  const double model = with_features(std::min(n_features, least_features)).of_model();
  return beside + std::max(model + static_cast<double>(rows) * of_row(), model / (1 - for_windows));
}

std::int64_t Footprint::rows_within(double n_bytes) const {
  return static_cast<std::int64_t>(std::floor((n_bytes - of_model() - beside) / of_row()));
}

std::int64_t Footprint::features_within(double n_bytes, std::int64_t rows) const {
  double room = n_bytes - beside;
  room -= std::max(for_windows * room, static_cast<double>(rows) * of_row());
  std::int64_t low = 0, high = n_features;  // by bisection, since of_model() has steps
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (with_features(middle).of_model() <= room) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

double Footprint::needed(std::int64_t rows, bool may_hash) const {
  const std::int64_t fewest = std::min(least_rows, rows);
  return may_hash ? least(fewest) : total(fewest);
}

std::optional<Footprint::Fit> Footprint::within(double n_bytes, std::int64_t rows, bool may_hash) const {
  const std::int64_t fit = std::min(rows_within(n_bytes), rows), fewest = std::min(least_rows, rows);
  if (fit >= std::min(enough_rows, rows) || (!may_hash && fit >= fewest)) return Fit{fit, std::nullopt};
  if (n_bytes < needed(rows, may_hash)) return std::nullopt;
  const std::int64_t features = features_within(n_bytes, fewest);
  if (features == n_features) return Fit{fit, std::nullopt};
  return Fit{std::min(with_features(features).rows_within(n_bytes), rows), features};
}

}  // namespace manyclass
