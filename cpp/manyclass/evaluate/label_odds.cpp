// See label_odds.hpp.
#include "manyclass/evaluate/label_odds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/math/box_minimum.hpp"
#include "manyclass/math/elementary.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/math/sums.hpp"

namespace manyclass {

namespace {

constexpr float linear = 1e-3F;  // odds up to which a logarithm is a sum of two terms

// -log(1 - e^t); a t in single precision is not nearer to 0 than its rounding.
double minus_log_rest(double t) {
  return -std::log(-std::expm1(std::min(t, -static_cast<double>(std::numeric_limits<float>::epsilon()))));
}

// The losses of one row, v being its log-probabilities and `odds` memory of as many numbers.
class RowOdds {
 public:
  RowOdds(const LabelOdds& question, std::span<const Index> labels, std::span<float> v, std::span<float> odds)
      : q_(question), labels_(labels), v_(v), odds_(odds) {}

  // log(1 + e) = e - e^2 / 2 + ... and -log(1 - e) = e + e^2 / 2 + ...: what is left out is below e / 3e6.
  double mean_over_classes() {
    const bool calibrated = q_.temperature > 0;
    if (calibrated) {
      const auto factor = static_cast<float>(1 / q_.temperature), offset = static_cast<float>(q_.offset);
      for (float& t : v_) t = t * factor + offset;
    }
    const auto of_large = [&](float t) {
      return calibrated ? softplus(static_cast<double>(t)) : minus_log_rest(static_cast<double>(t));
    };
    double total = 0;
    for (std::size_t k = 0; k < v_.size(); ++k) odds_[k] = vec::exp(v_[k]);
    for (std::size_t k = 0; k < v_.size(); ++k) {
      if (odds_[k] <= linear) continue;
      total += of_large(v_[k]);
      odds_[k] = 0;
    }
    total += sum_of(odds_);
    for (float& e : odds_) e *= e;
    total += (calibrated ? -0.5 : 0.5) * sum_of(odds_);
    for (const Index label : labels_) {
      const float t = v_[static_cast<std::size_t>(label)];
      total -= static_cast<double>(t) + (calibrated ? 0 : minus_log_rest(static_cast<double>(t)));
    }
    return total / static_cast<double>(v_.size());
  }

  void count(double weight, std::span<double> counts) const {
    const auto lowest = static_cast<float>(q_.lowest), per_bin = static_cast<float>(counts.size()) / -lowest;
    const float last = static_cast<float>(counts.size() - 1);
    const auto bin = [&](float v) {
      return static_cast<std::size_t>(std::min((std::max(v, lowest) - lowest) * per_bin, last));
    };
    for (const float v : v_) counts[bin(v)] += weight;
    for (const Index label : labels_) counts[bin(v_[static_cast<std::size_t>(label)])] -= weight;
  }

 private:
  const LabelOdds& q_;
  std::span<const Index> labels_;
  std::span<float> v_, odds_;
};

void of_row(const LabelOdds& q, const LabelOddsSums& sums, std::size_t i, std::span<float> v, std::span<float> odds) {
  const auto z = q.scores.subspan(i * q.n_classes, q.n_classes);
  const std::span<const Index> labels = q.labels.of(i);
  const float top = max_of(z, z[0]);
  for (std::size_t k = 0; k < z.size(); ++k) v[k] = z[k] - top;
  for (std::size_t k = 0; k < z.size(); ++k) odds[k] = vec::exp(v[k]);
  const double log_sum = std::log(sum_of(odds));
  if (!sums.log_losses.empty()) {
    double loss = 0;
    for (const Index label : labels) loss += log_sum - static_cast<double>(v[static_cast<std::size_t>(label)]);
    sums.log_losses[i] = labels.empty() ? 0 : loss / static_cast<double>(labels.size());
  }
  for (float& score : v) score -= static_cast<float>(log_sum);
  const auto first = static_cast<std::size_t>(q.labels.indptr[i]);
  for (std::size_t l = 0; !sums.own.empty() && l < labels.size(); ++l) {
    sums.own[first + l] = static_cast<double>(v[static_cast<std::size_t>(labels[l])]);
  }
  RowOdds row(q, labels, v, odds);
  if (!sums.counts.empty()) row.count(q.weights[i], sums.counts);
  if (!sums.label_losses.empty()) sums.label_losses[i] = row.mean_over_classes();
}

void check(const LabelOdds& q, const LabelOddsSums& sums) {
  const std::size_t n = q.n_classes == 0 ? 0 : q.scores.size() / q.n_classes;
  check(q.labels, n, q.n_classes, "labels");
  const auto fits = [](std::size_t size, std::size_t wanted) { return size == 0 || size == wanted; };
  if (q.scores.size() != n * q.n_classes || !fits(sums.log_losses.size(), n) || !fits(sums.label_losses.size(), n) ||
      !fits(sums.own.size(), q.labels.ids.size()) ||
      (!sums.counts.empty() && (q.weights.size() != n || !(q.lowest < 0)))) {
    throw std::invalid_argument("the sums do not have the sizes of the scores and the labels");
  }
}

}  // namespace

void label_odds(const LabelOdds& q, const LabelOddsSums& sums) {
  constexpr std::size_t together = 16;  // rows that a thread takes at once
  check(q, sums);
  const int n_threads = sums.counts.empty() ? q.n_threads : 1;  // counts are added up in the order of the rows
  parallel_for(n_threads, (q.size() + together - 1) / together, [&](std::size_t piece) {
    std::vector<float> v(q.n_classes), odds(q.n_classes);
    const std::size_t end = std::min(q.size(), (piece + 1) * together);
    for (std::size_t i = piece * together; i < end; ++i) {
      run_with(q.isa, [&] { of_row(q, sums, i, v, odds); });
    }
  });
}

PlattScaling platt_scaling(const PlattQuestion& q) {
  if (q.weights.size() != q.own.size() || q.counts.empty() || !(q.lowest < 0)) {
    throw std::invalid_argument("the weights or the bins do not fit the labels");
  }
  double total = 0;
  for (const double weight : q.weights) total += weight;
  const double width = -q.lowest / static_cast<double>(q.counts.size());
  const auto loss = [&](std::span<const double> at, std::span<double> slopes) {
    const double a = at[0], c = at[1];
    double value = 0, by_factor = 0, by_offset = 0;
    for (std::size_t b = 0; b < q.counts.size(); ++b) {
      if (q.counts[b] == 0) continue;
      const double middle = q.lowest + width * (static_cast<double>(b) + 0.5), odds = a * middle + c;
      const double wrong = q.counts[b] * expit(odds);
      value += q.counts[b] * softplus(odds);
      by_factor += wrong * middle;
      by_offset += wrong;
    }
    for (std::size_t l = 0; l < q.own.size(); ++l) {
      const double odds = a * q.own[l] + c, missed = q.weights[l] * expit(-odds);
      value += q.weights[l] * softplus(-odds);
      by_factor -= missed * q.own[l];
      by_offset -= missed;
    }
    slopes[0] = by_factor / total;
    slopes[1] = by_offset / total;
    return value / total;
  };
  // The start is that of a softmax whose probabilities, times the number of labels of a row, are those of its labels.
  const std::array start{1.0, std::log(total / q.n_rows)};
  const Box box{{1 / q.most_factor, -q.most_offset}, {q.most_factor, q.most_offset}};
  const BoxMinimum found = minimum_in_box(loss, start, box, {.gain = 1e-12, .slope = 1e-8, .most_looks = 20});
  return {found.at[0], found.at[1], found.value * total};
}

}  // namespace manyclass
