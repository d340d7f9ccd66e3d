// Looks at the exact loss: see the header.
#include "manyclass/train/common/probe.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace manyclass {

namespace {

// A look at probabilities of random utilities is an integral over the noise at this many nodes or more.
constexpr double cost_of_integral = 100;
// In units of the loss of W = 0 and beyond twice the standard error: a loss so high or a rise by so much is no noise of
// steps that learn. (Where labels are random, steps of the default size end at up to 1.09.)
constexpr double too_high = 1.1, too_much = 0.25;
// Where the log-loss is what steps of single points make smaller, a rise of the objective is told if it is more than
// twice its own standard error and `rise` nats; in plans of fewer than `many_passes`, which end while steps are large,
// more than `rise_of_few` in the unit of the loss of W = 0: fits of some ten or hundred rows rise by up to .14.
constexpr double rise = 0.05, rise_of_few = 0.15;

std::string shown(double value) {
  if (std::isnan(value)) return "nan";
  std::ostringstream text;
  text.precision(4);
  text << value;
  return text.str();
}

}  // namespace

std::pair<double, double> mean_and_error(std::span<const double> values, std::span<const double> weights) {
  if (!weights.empty() && weights.size() != values.size()) {
    throw std::invalid_argument("there are " + std::to_string(weights.size()) + " weights of " +
                                std::to_string(values.size()) + " losses");
  }
  double total = 0, sum = 0, squares = 0;
  const auto weight = [&](std::size_t i) { return weights.empty() ? 1 : weights[i]; };
  for (std::size_t i = 0; i < values.size(); ++i) total += weight(i), sum += weight(i) * values[i];
  const double mean = sum / total;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double away = weight(i) * (values[i] - mean);
    squares += away * away;
  }
  return {mean, std::sqrt(squares) / total};
}

LossProbe::LossProbe(const ProbedTraining& of) : minimised_(of.minimised), at_zero_(of.at_zero) {
  const double cost = static_cast<double>(of.n_classes) * (of.has_integrals ? cost_of_integral : 1);
  const auto drawn = static_cast<double>(std::min(of.n_drawn, of.n_classes) + 1);
  const double pairs = share * static_cast<double>(of.n_points) * drawn * static_cast<double>(of.n_passes);
  const auto affordable = static_cast<std::int64_t>(std::max(pairs, free_pairs) / cost);
  for (std::int64_t pass = 1; pass < of.n_passes; pass *= 2) passes_.push_back(pass);
  if (affordable < fewest * static_cast<std::int64_t>(passes_.size() + 1)) passes_.clear();
  const auto of_look = affordable / static_cast<std::int64_t>(passes_.size() + 1);
  n_points_ = std::min({of.n_points, most, std::max(fewest, of_look)});
  left_ = std::max(0.0, 1 - static_cast<double>(n_points_) / static_cast<double>(of.n_points));
  least_rise_ = !minimised_ ? too_much * at_zero_ : of.n_passes >= many_passes ? rise : rise_of_few * at_zero_;
}

bool LossProbe::look(std::int64_t pass, std::span<const double> losses, std::span<const double> weights) {
  const Look found = mean_and_error(losses, weights);
  const bool least =
      std::all_of(looks_.begin(), looks_.end(), [&](const auto& before) { return found.first < before.second.first; });
  if (least) {
    best_losses_.assign(losses.begin(), losses.end());
    rise_error_.reset();
  } else if (minimised_ && best_losses_.size() == losses.size()) {
    // What is compared is the points' own differences, by which all of the training points tell a rise exactly: the
    // error is that of those which are not looked at.
    std::vector<double> rises(losses.size());
    std::transform(losses.begin(), losses.end(), best_losses_.begin(), rises.begin(), std::minus<>());
    rise_error_ = mean_and_error(rises, weights).second * std::sqrt(left_);
  }
  looks_[pass] = found;
  return !std::isfinite(found.first);
}

std::pair<double, std::int64_t> LossProbe::best() const {
  std::pair<double, std::int64_t> found{std::numeric_limits<double>::infinity(), 0};
  for (const auto& [pass, look] : looks_) {
    if (std::isfinite(look.first)) found = std::min(found, {look.first, pass});
  }
  return found;
}

double LossProbe::last() const {
  return looks_.empty() ? -std::numeric_limits<double>::infinity() : looks_.rbegin()->second.first;
}

std::optional<std::string> LossProbe::verdict() const {
  if (looks_.empty()) return std::nullopt;
  const auto least = std::min_element(looks_.begin(), looks_.end(),
                                      [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  const auto [low, low_error] = least->second;
  const auto [high, last_error] = looks_.rbegin()->second;
  const auto first = looks_.find(0);  // of a model that goes on, to which new classes are improbable
  const double before = first == looks_.end() ? 0 : first->second.first;
  const std::string last = std::to_string(looks_.rbegin()->first);
  const std::string where = "of " + std::to_string(n_points_) + " training points ";
  if (!(high - 2 * last_error <= too_high * std::max(at_zero_, before))) {
    return "the exact loss " + where + "after pass " + last + ", " + shown(high) + ", is above that of W = 0";
  }
  const double error = rise_error_.value_or(last_error);
  if (high - 2 * error <= low + least_rise_) return std::nullopt;
  return "the exact loss " + where + "rose from " + shown(low) + " after pass " + std::to_string(least->first) +
         " to " + shown(high) + " after pass " + last;
}

}  // namespace manyclass
