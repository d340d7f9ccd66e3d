// See class_texts.hpp.
#include "manyclass/evaluate/class_texts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/math/elementary_double.hpp"
#include "manyclass/math/interval_minimum.hpp"
#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double shrinkages[] = {0.3, 1, 3, 10, 30, 100, infinite};
constexpr double least_gain = 5;       // nats, of all rows together
constexpr double least_unseen = 0.01;  // the share of rows of classes not yet seen
constexpr double most_scale = 100, precision = 0.01;
constexpr double tiny = 1e-300;

void check(const ClassTextRows& rows) {
  const std::size_t n_classes = rows.counts.size(), n = rows.weights.size();
  if (n == 0 || rows.scores.size() != n * n_classes || static_cast<std::size_t>(rows.alike.n_rows()) != n ||
      static_cast<std::size_t>(rows.alike.n_cols) != n_classes || rows.has_text.size() != n_classes) {
    throw std::invalid_argument("the scores, the texts and the weights do not fit the rows");
  }
  check(rows.labels, n, n_classes, "labels");
}

// Constant and slope of the least squares of values over places; a constant alone where these are alike.
struct Line {
  double constant, slope;

  static Line through(std::span<const double> at, std::span<const double> values, double otherwise) {
    if (at.empty()) return {otherwise, 0};
    const auto n = static_cast<double>(at.size());
    double mean_at = 0, mean = 0, products = 0, squares = 0;
    for (std::size_t i = 0; i < at.size(); ++i) mean_at += at[i], mean += values[i];
    mean_at /= n;
    mean /= n;
    for (std::size_t i = 0; i < at.size(); ++i) {
      products += (at[i] - mean_at) * (values[i] - mean);
      squares += (at[i] - mean_at) * (at[i] - mean_at);
    }
    const auto [low, high] = std::ranges::minmax(at);
    const double slope = low < high ? products / squares : 0;
    return {mean - slope * mean_at, slope};
  }
};

// The losses of the rows by the scales of texts, which move the scores of texts that share a term with them.
class Search {
 public:
  explicit Search(const ClassTextRows& rows) : given_(rows), sums_(rows.weights.size()), moved_(sums_.size()) {
    double of_plain = 0;
    std::size_t n_plain = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const auto scores = rows.scores.subspan(i * n_classes(), n_classes());
      const std::span<const Index> labels = rows.labels.of(i);
      const auto top = static_cast<double>(*std::ranges::max_element(scores));
      for (std::size_t k = 0; k < scores.size(); ++k) {  // what is no label competes with each label
        if (std::ranges::binary_search(labels, static_cast<Index>(k))) continue;
        sums_[i] += std::exp(static_cast<double>(scores[k]) - top);
        if (rows.counts[k] > 0) continue;
        of_plain += static_cast<double>(scores[k]);
        ++n_plain;
      }
      const std::size_t first = labels_.size();
      for (const Index y : labels) {
        const auto k = static_cast<std::size_t>(y);
        labels_.push_back(
            {i, k, static_cast<double>(scores[k]) - top, 0, top, rows.weights[i] / static_cast<double>(labels.size())});
      }
      const SparseRow texts = rows.alike.row(static_cast<Index>(i));
      for (std::size_t n = 0; n < texts.indices.size(); ++n) {
        const auto k = static_cast<std::size_t>(texts.indices[n]);
        const auto found = std::ranges::lower_bound(labels, texts.indices[n]);
        if (found != labels.end() && *found == texts.indices[n]) {
          labels_[first + static_cast<std::size_t>(found - labels.begin())].alike =
              static_cast<double>(texts.values[n]);
        } else {
          rows_.push_back(i);
          classes_.push_back(k);
          alike_.push_back(static_cast<double>(texts.values[n]));
          z_.push_back(static_cast<double>(scores[k]) - top);
          tops_.push_back(top);
        }
      }
    }
    plain_ = n_plain > 0 ? of_plain / static_cast<double>(n_plain) : 0;
    exp_z_.resize(z_.size());
    moved_z_.resize(z_.size());
    for (std::size_t n = 0; n < z_.size(); ++n) exp_z_[n] = vec::exp(z_[n]);
    for (const OwnScore& label : labels_) total_ += label.weight;
  }

  double loss(std::span<const double> scales) {
    move(scales);
    double sum = 0;
    for (const OwnScore& label : labels_) {
      const double own = label.score + scales[label.k] * label.alike;
      sum += label.weight * (log_add(log_others(label.row), own) - own);
    }
    return sum / total_;
  }

  // What texts count by the rows of classes; 0 of classes without rows.
  std::vector<double> scales(double scale, double shrinkage) const {
    std::vector<double> found(n_classes());
    for (std::size_t k = 0; k < found.size(); ++k) {
      const double share = std::isinf(shrinkage) ? 1 : shrinkage / (shrinkage + given_.counts[k]);
      found[k] = given_.counts[k] > 0 ? scale * share : 0;
    }
    return found;
  }

  // The least loss by a shrinkage, which is convex in the scale.
  IntervalMinimum best(double shrinkage) {
    return minimum_on([&](double scale) { return loss(scales(scale, shrinkage)); }, {0, most_scale}, precision);
  }

  bool is_unseen(std::size_t k) const { return given_.counts[k] == 0 && given_.has_text[k]; }

  // Sets the scale of classes without rows.
  double best_of_unseen(std::vector<double>& scales) {
    std::vector<double> at, values;
    for (std::size_t n = 0; n < z_.size(); ++n) {
      if (!is_unseen(classes_[n])) continue;
      at.push_back(alike_[n]);
      values.push_back(z_[n] + tops_[n]);
    }
    const Line line = Line::through(at, values, plain_);
    double single = 0, all = 0;
    for (const double count : given_.counts) {
      single += count == 1 ? 1 : 0;
      all += count;
    }
    const double share = std::max(least_unseen, single / std::max(1.0, all));
    const auto set = [&](double scale) {
      for (std::size_t k = 0; k < scales.size(); ++k) scales[k] = is_unseen(k) ? scale : scales[k];
    };
    const auto look = [&](double scale) {
      set(scale);
      const double as_they_are = loss(scales);
      double as_new = 0;
      for (const OwnScore& label : labels_) {
        const double own = line.constant + (line.slope + scale) * label.alike - label.top;
        as_new += label.weight * (log_add(log_others(label.row), own) - own);
      }
      return (1 - share) * as_they_are + share * as_new / total_;
    };
    const double found = minimum_on(look, {0, most_scale}, precision).at;
    set(found);
    return found;
  }

 private:
  // A label of a row.
  struct OwnScore {
    std::size_t row, k;
    double score, alike, top;  // less the largest score of the row; of row and text; that score
    double weight;
  };

  std::size_t n_classes() const { return given_.counts.size(); }

  void move(std::span<const double> scales) {
    poll(z_.size() * 32);  // an exponential takes some thirty operations
    std::ranges::fill(moved_, 0.0);
    for (std::size_t n = 0; n < z_.size(); ++n) moved_z_[n] = z_[n] + scales[classes_[n]] * alike_[n];
    run_with(best_isa(), [&] {
      for (double& z : moved_z_) z = vec::exp(z);
    });
    for (std::size_t n = 0; n < z_.size(); ++n) moved_[rows_[n]] += moved_z_[n] - exp_z_[n];
  }

  // Of what competes with the labels of a row.
  double log_others(std::size_t row) const { return std::log(std::max(sums_[row] + moved_[row], tiny)); }

  const ClassTextRows& given_;
  std::vector<double> sums_, moved_;  // of e^z over what competes, and what scales add to it
  std::vector<OwnScore> labels_;
  std::vector<std::size_t> rows_, classes_;                 // of each score that a text moves
  std::vector<double> alike_, z_, tops_, exp_z_, moved_z_;  // z is less the row's largest score, `tops`
  double plain_ = 0, total_ = 0;  // the mean score of classes without rows; the sum of weights
};

}  // namespace

ClassTextScales class_text_scales(const ClassTextRows& rows) {
  check(rows);
  Search search(rows);
  ClassTextScales found;
  found.none = search.loss(std::vector<double>(rows.counts.size()));
  found.loss = infinite;
  for (const double shrinkage : shrinkages) {
    const IntervalMinimum least = search.best(shrinkage);
    if (!(least.value < found.loss)) continue;
    found.loss = least.value;
    found.scale = least.at;
    found.shrinkage = shrinkage;
  }
  if (!((found.none - found.loss) * static_cast<double>(rows.weights.size()) > least_gain)) {
    found.loss = found.none;
    found.scale = 0;
  }
  found.of_classes = search.scales(found.scale, found.shrinkage);
  bool any = false;
  for (std::size_t k = 0; k < rows.counts.size(); ++k) any = any || search.is_unseen(k);
  if (any) found.of_unseen = search.best_of_unseen(found.of_classes);
  return found;
}

void unlike_texts(const CsrView& x, const Excluded& labels, const CsrView& texts, std::span<bool> unlike) {
  constexpr double alike = 1 - 1e-5;  // a cosine, of numbers in single precision
  const auto n = static_cast<std::size_t>(x.n_rows());
  if (unlike.size() != n || x.n_cols != texts.n_cols) throw std::invalid_argument("the texts do not fit the rows");
  check(labels, n, static_cast<std::size_t>(texts.n_rows()), "labels");
  std::vector<double> row(static_cast<std::size_t>(x.n_cols));
  const auto square = [](const SparseRow& some) {
    double sum = 0;
    for (const float value : some.values) sum += static_cast<double>(value) * static_cast<double>(value);
    return sum;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const SparseRow own = x.row(static_cast<Index>(i));
    const auto put = [&](double times) {
      for (std::size_t m = 0; m < own.indices.size(); ++m) {
        row[static_cast<std::size_t>(own.indices[m])] = times * static_cast<double>(own.values[m]);
      }
    };
    put(1);
    unlike[i] = true;
    for (const Index k : labels.of(i)) {
      const SparseRow text = texts.row(k);
      double product = 0;
      for (std::size_t m = 0; m < text.indices.size(); ++m) {
        product += row[static_cast<std::size_t>(text.indices[m])] * static_cast<double>(text.values[m]);
      }
      const double lengths = std::sqrt(square(own) * square(text));
      if (lengths > 0 && product > alike * lengths) unlike[i] = false;
    }
    put(0);
  }
}

}  // namespace manyclass
