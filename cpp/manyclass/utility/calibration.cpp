// See calibration.hpp.
#include "manyclass/utility/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <variant>
#include <vector>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/evaluate/label_odds.hpp"
#include "manyclass/math/interval_minimum.hpp"
#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

namespace {

constexpr std::size_t most_kept = std::size_t{1} << 28;     // scores that are kept; more are made again for each look
constexpr std::size_t most_at_once = std::size_t{1} << 22;  // scores of a tile: 16 MB
// 1/T within this share of the best: the standard error of 4,096 rows is some ten times as much.
constexpr double precision = 1e-3;
// Bins of v over ]-60, 0]: 0.01 wide, where the logistic function is straight to 1e-5; e^-60 labels are none.
constexpr double lowest = -60;
constexpr std::size_t n_bins = 8192;

void check(const HeldOutRows& rows) {
  if (rows.n_classes == 0 || rows.size() == 0) throw std::invalid_argument("there are no rows or no classes");
  check(rows.labels, rows.size(), rows.n_classes, "labels");
  if (!rows.weights.empty() && rows.weights.size() != rows.size()) {
    throw std::invalid_argument("the weights do not fit the rows");
  }
}

// Calls f(first, scores) for the rows, some at a time.
template <class F>
void each_tile(const HeldOutRows& rows, const F& f) {
  const std::size_t step = std::max(std::size_t{1}, most_at_once / rows.n_classes);
  std::vector<float> room(std::min(step, rows.size()) * rows.n_classes);
  for (std::size_t first = 0; first < rows.size(); first += step) {
    const auto scores = std::span(room).first(std::min(step, rows.size() - first) * rows.n_classes);
    rows.score(first, scores);
    f(first, std::span<const float>(scores));
  }
}

// What the core is asked about a tile's labels; `indptr` is memory for their offsets.
LabelOdds odds_of(const HeldOutRows& rows, std::size_t first, std::span<const float> scores,
                  std::vector<Offset>& indptr) {
  const std::size_t n = scores.size() / rows.n_classes;
  const auto own = rows.labels.indptr.subspan(first, n + 1);
  indptr.assign(own.begin(), own.end());
  for (Offset& at : indptr) at -= own.front();
  LabelOdds question;
  question.scores = scores;
  question.n_classes = rows.n_classes;
  question.labels = {indptr, rows.labels.ids.subspan(static_cast<std::size_t>(own.front()),
                                                     static_cast<std::size_t>(own.back() - own.front()))};
  question.n_threads = rows.n_threads;
  question.isa = rows.isa;
  return question;
}

// The log-losses of rows of one label, whose scores are taken times a factor.
class ScaledLosses {
 public:
  ScaledLosses(const HeldOutRows& rows, const NoiseKind& noise) : rows_(rows), noise_(noise) {
    if (rows.size() * rows.n_classes > most_kept) return;
    kept_.reserve(rows.size() * rows.n_classes);
    each_tile(rows, [&](std::size_t, std::span<const float> z) { kept_.insert(kept_.end(), z.begin(), z.end()); });
  }

  double mean(double factor) {
    double sum = 0, total = 0;
    each([&](std::size_t first, std::span<const float> scores) {
      poll(scores.size());
      scaled_.resize(scores.size());
      constexpr float most = 0x1p126F;  // so that differences of two are finite, see evaluate/tiles.hpp
      const auto f = static_cast<float>(factor);
      for (std::size_t k = 0; k < scores.size(); ++k) scaled_[k] = std::clamp(scores[k] * f, -most, most);
      losses_.assign(scores.size() / rows_.n_classes, 0.0);
      add_losses(first);
      for (std::size_t i = 0; i < losses_.size(); ++i) {
        sum += rows_.weight(first + i) * losses_[i];
        total += rows_.weight(first + i);
      }
    });
    return sum / total;
  }

 private:
  template <class F>
  void each(const F& f) const {
    if (kept_.empty()) return each_tile(rows_, f);
    const std::size_t step = std::max(std::size_t{1}, most_at_once / rows_.n_classes);
    for (std::size_t first = 0; first < rows_.size(); first += step) {
      const std::size_t n = std::min(step, rows_.size() - first);
      f(first, std::span(kept_).subspan(first * rows_.n_classes, n * rows_.n_classes));
    }
  }

  void add_losses(std::size_t first) {
    if (std::holds_alternative<GumbelNoise>(noise_)) {
      LabelOddsSums sums;
      sums.log_losses = losses_;
      return label_odds(odds_of(rows_, first, scaled_, indptr_), sums);
    }
    const std::vector<double> psi(scaled_.begin(), scaled_.end());
    const auto labels = rows_.labels.ids.subspan(static_cast<std::size_t>(rows_.labels.indptr[first]), losses_.size());
    utility_probabilities_at(noise_, {psi, rows_.n_classes}, labels, 1, true, rows_.n_threads, rows_.isa, losses_);
    for (double& loss : losses_) loss = -loss;
  }

  const HeldOutRows& rows_;
  const NoiseKind& noise_;
  std::vector<float> kept_, scaled_;
  std::vector<double> losses_;
  std::vector<Offset> indptr_;
};

}  // namespace

FoundCalibration best_temperature(const HeldOutRows& rows, const NoiseKind& noise) {
  check(rows);
  if (rows.labels.ids.size() != rows.size()) throw std::invalid_argument("each row must have one label");
  ScaledLosses losses(rows, noise);
  const double end = std::log(most_temperature), before = losses.mean(1);
  const auto look = [&](double log_factor) { return losses.mean(std::exp(log_factor)); };
  const IntervalMinimum found = minimum_on(look, {-end, end}, precision);
  if (!(found.value < before)) return {1, 0, before, before};  // the search ends beside 0 where 0 is best
  return {std::exp(-found.at), 0, before, found.value};
}

FoundCalibration best_odds(const HeldOutRows& rows) {
  check(rows);
  std::vector<double> counts(n_bins), own(rows.labels.ids.size()), of_own(own.size()), weights(rows.size()), losses;
  std::vector<Offset> indptr;
  double before = 0, total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    weights[i] = rows.weight(i);
    total += weights[i];
    const auto begin = static_cast<std::size_t>(rows.labels.indptr[i]);
    std::fill_n(of_own.begin() + static_cast<std::ptrdiff_t>(begin), rows.labels.of(i).size(), weights[i]);
  }
  each_tile(rows, [&](std::size_t first, std::span<const float> scores) {
    LabelOdds question = odds_of(rows, first, scores, indptr);
    losses.assign(question.size(), 0.0);
    question.weights = std::span(weights).subspan(first, losses.size());
    question.lowest = lowest;
    LabelOddsSums sums;
    sums.label_losses = losses;
    sums.own = std::span(own).subspan(static_cast<std::size_t>(rows.labels.indptr[first]), question.labels.ids.size());
    sums.counts = counts;
    label_odds(question, sums);
    const auto width = static_cast<double>(rows.n_classes);
    for (std::size_t i = 0; i < losses.size(); ++i) before += width * question.weights[i] * losses[i];
  });
  const PlattScaling found = platt_scaling({lowest, counts, own, of_own, total, most_temperature, most_offset});
  return {1 / found.factor, found.offset, before / total, found.loss / total};
}

void label_log_losses(const HeldOutRows& rows, double temperature, double offset, std::span<double> of_classes,
                      std::span<double> of_own) {
  if (of_classes.size() != rows.size() || of_own.size() != rows.size()) {
    throw std::invalid_argument("there must be a loss for each row");
  }
  std::vector<Offset> indptr;
  each_tile(rows, [&](std::size_t first, std::span<const float> scores) {
    LabelOdds question = odds_of(rows, first, scores, indptr);
    question.temperature = temperature;
    question.offset = offset;
    LabelOddsSums sums;
    sums.label_losses = of_classes.subspan(first, question.size());
    sums.log_losses = of_own.subspan(first, question.size());
    label_odds(question, sums);
  });
}

}  // namespace manyclass
