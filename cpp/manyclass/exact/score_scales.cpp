// See score_scales.hpp.
#include "manyclass/exact/score_scales.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <variant>

#include "manyclass/core/parallel.hpp"
#include "manyclass/exact/labels_first.hpp"
#include "manyclass/math/sums.hpp"

namespace manyclass {

namespace {

constexpr std::size_t together = 8;  // rows that a thread takes at once, whose sums are one number

double total_weight(const ScaledRows& rows) {
  double total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) total += rows.weight(i);
  return total;
}

// z += factor a, held as scores are (evaluate/tiles.hpp), so that differences of sums of n terms are finite.
void add_times(std::span<const float> a, double factor, std::size_t n, std::span<float> z) {
  const auto f = static_cast<float>(factor);
  const float most = 0x1p126F / static_cast<float>(n);
  for (std::size_t k = 0; k < z.size(); ++k) z[k] += std::clamp(a[k] * f, -most, most);
}

// The scores of one row after another, and what they make of its loss.
class Row {
 public:
  Row(const ScaledRows& rows, const LabelLoss& loss)
      : rows_(rows), loss_(loss), labels_first_(rows.n_classes), inner_(rows.n_classes), z_(rows.n_classes) {}

  // Adds the loss of row i to sums[0], and its derivatives to those behind.
  void add(std::size_t i, std::span<const double> scales, std::span<double> sums) {
    run_with(rows_.isa, [&] { score(i, scales); });
    LabelGradient gradient = labels_first_.gradient();
    const double loss = value_of(loss_, labels_first_.scores(), gradient, memory_, rows_.isa);
    run_with(rows_.isa, [&] {
      sums[0] += rows_.weight(i) * loss;
      labels_first_.scatter(z_);
      for (std::size_t p = 0; p < scales.size(); ++p) {
        const std::span<const float> a = rows_.sum_of.empty() ? term(p, i) : std::span<const float>(inner_);
        sums[p + 1] += rows_.weight(i) * sum_of_products(z_, a);
      }
    });
  }

 private:
  std::span<const float> term(std::size_t p, std::size_t i) const {
    return rows_.terms[p].subspan(i * rows_.n_classes, rows_.n_classes);
  }

  void score(std::size_t i, std::span<const double> scales) {
    std::ranges::fill(z_, 0.0F);
    if (rows_.sum_of.empty()) {
      for (std::size_t p = 0; p < scales.size(); ++p) add_times(term(p, i), scales[p], scales.size(), z_);
    } else {
      sum_terms(i);
      add_times(inner_, scales[0], 1, z_);
    }
    labels_first_.gather(z_, rows_.labels.of(i));
  }

  void sum_terms(std::size_t i) {
    std::ranges::fill(inner_, 0.0F);
    const std::size_t n = rows_.terms.size();
    for (std::size_t p = 0; p < n; ++p) add_times(term(p, i), rows_.sum_of[p], n, inner_);
  }

  const ScaledRows& rows_;
  const LabelLoss& loss_;
  LabelsFirst labels_first_;
  LossMemory memory_;
  std::vector<float> inner_, z_;  // the sum of terms; scores, then their gradient
};

// The mean over the rows of the variance of each term's scores over the classes.
std::vector<double> spreads(const ScaledRows& rows) {
  std::vector<double> found;
  for (std::size_t p = 0; p < rows.n_scales(); ++p) {
    double total = 0;
    std::vector<float> z(rows.n_classes);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::ranges::fill(z, 0.0F);
      for (std::size_t q = 0; q < rows.terms.size(); ++q) {
        const double factor = rows.sum_of.empty() ? (p == q ? 1 : 0) : rows.sum_of[q];
        if (factor != 0) {
          add_times(rows.terms[q].subspan(i * rows.n_classes, rows.n_classes), factor, rows.terms.size(), z);
        }
      }
      double mean = 0, squares = 0;
      for (const float score : z) mean += static_cast<double>(score);
      mean /= static_cast<double>(z.size());
      for (const float score : z) squares += (static_cast<double>(score) - mean) * (static_cast<double>(score) - mean);
      total += rows.weight(i) * squares / static_cast<double>(z.size());
    }
    found.push_back(total / total_weight(rows));
  }
  return found;
}

}  // namespace

void check(const ScaledRows& rows) {
  const std::size_t n = rows.n_classes == 0 || rows.terms.empty() ? 0 : rows.terms[0].size() / rows.n_classes;
  check(rows.labels, n, rows.n_classes, "labels");
  for (const auto& term : rows.terms) {
    if (term.size() != n * rows.n_classes) throw std::invalid_argument("the terms do not have scores of the same rows");
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (rows.labels.of(i).empty()) throw std::invalid_argument("row " + std::to_string(i) + " has no label");
  }
  if ((!rows.weights.empty() && rows.weights.size() != n) ||
      (!rows.sum_of.empty() && rows.sum_of.size() != rows.terms.size())) {
    throw std::invalid_argument("the weights or the factors do not fit the rows and the terms");
  }
}

double scaled_loss(const ScaledRows& rows, const LabelLoss& loss, std::span<const double> scales,
                   std::span<double> slopes) {
  const std::size_t n_pieces = (rows.size() + together - 1) / together, width = scales.size() + 1;
  std::vector<double> sums(n_pieces * width);
  parallel_for(rows.n_threads, n_pieces, [&](std::size_t piece) {
    Row row(rows, loss);
    const std::size_t end = std::min(rows.size(), (piece + 1) * together);
    const auto own = std::span(sums).subspan(piece * width, width);
    for (std::size_t i = piece * together; i < end; ++i) row.add(i, scales, own);
  });
  std::vector<double> found(width);
  for (std::size_t piece = 0; piece < n_pieces; ++piece) {
    for (std::size_t p = 0; p < width; ++p) found[p] += sums[piece * width + p];
  }
  const double total = total_weight(rows);
  for (std::size_t p = 0; p + 1 < width; ++p) slopes[p] = found[p + 1] / total;
  return found[0] / total;
}

BoxMinimum best_scales(const ScaledRows& rows, const LabelLoss& loss, std::span<const double> start, const Box& box) {
  const auto look = [&](std::span<const double> at, std::span<double> g) { return scaled_loss(rows, loss, at, g); };
  return minimum_in_box(look, start, box, {});
}

KnownScales learnt_scales(const ScaledRows& rows, const LabelLoss& loss, const KnownScales& known, double least) {
  constexpr double difference = 0.02;  // of a factor, between the slopes that tell its curvature
  const double n_rows = total_weight(rows);
  if (!(n_rows > 0)) return known;
  const std::size_t n = known.means.size();
  KnownScales found = known;
  if (std::ranges::all_of(known.precisions, [](double p) { return p == 0; })) found.precisions = spreads(rows);
  const auto look = [&](std::span<const double> at, std::span<double> g) {
    double value = scaled_loss(rows, loss, at, g);
    for (std::size_t p = 0; p < n; ++p) {
      const double away = at[p] - known.means[p], pull = found.precisions[p] * away / n_rows;
      value += 0.5 * away * pull;
      g[p] += pull;
    }
    return value;
  };
  std::vector<double> start(n), at(n), moved(n);
  for (std::size_t p = 0; p < n; ++p) start[p] = std::fmax(known.means[p], least);
  const double none = std::numeric_limits<double>::infinity();
  const Box box{std::vector<double>(n, least), std::vector<double>(n, none)};
  // A factor's own rounding matters less than how near it is to the best one: its mean goes on to later rows.
  found.means = minimum_in_box(look, start, box, {.gain = 1e-9, .slope = 1e-5, .most_looks = 20}).at;
  scaled_loss(rows, loss, found.means, at);
  for (std::size_t p = 0; p < n; ++p) {
    std::vector<double> scales = found.means;
    const double step = difference * scales[p];
    scales[p] += step;
    scaled_loss(rows, loss, scales, moved);
    found.precisions[p] += n_rows * std::fmax((moved[p] - at[p]) / step, 0);
  }
  return found;
}

}  // namespace manyclass
