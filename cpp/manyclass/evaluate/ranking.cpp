// See ranking.hpp.
#include "manyclass/evaluate/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace manyclass {

namespace {

void check(const Ranked& rows) {
  check(rows.labels);
  if (rows.predicted.size() != rows.labels.size() * rows.width) {
    const std::size_t n = rows.width == 0 ? 0 : rows.predicted.size() / rows.width;
    throw std::invalid_argument("predicted has " + std::to_string(n) + " rows, there are labels of " +
                                std::to_string(rows.labels.size()));
  }
}

void check(std::span<const std::int64_t> places) {
  if (std::ranges::any_of(places, [](std::int64_t k) { return k < 1; })) {
    throw std::invalid_argument("each number of places must be at least 1");
  }
}

bool is_among(std::span<const Index> labels, Index wanted) { return std::ranges::binary_search(labels, wanted); }

double discount(std::size_t place) { return 1 / std::log2(static_cast<double>(place) + 2); }

// Running sums of the gains of a row's first predictions: sums[j] is that of the first j.
template <class Gain>
void add_gains(const Ranked& rows, std::size_t i, const Gain& gain, std::vector<double>& sums) {
  const std::span<const Index> labels = rows.labels.row(i), predicted = rows.of(i);
  sums.assign(rows.width + 1, 0.0);
  for (std::size_t j = 0; j < rows.width; ++j) {
    sums[j + 1] = sums[j] + (is_among(labels, predicted[j]) ? gain(j, predicted[j]) : 0);
  }
}

std::size_t first_of(std::int64_t k, std::size_t width) { return std::min(static_cast<std::size_t>(k), width); }

// The mean over rows of gain sums over what `whole(n_labels, k)` says.
template <class Gain, class Whole>
std::vector<double> means(const Ranked& rows, std::span<const std::int64_t> places, const Gain& gain,
                          const Whole& whole) {
  std::vector<double> found(places.size()), sums;
  for (std::size_t i = 0; i < rows.labels.size(); ++i) {
    add_gains(rows, i, gain, sums);
    const std::size_t n = rows.labels.row(i).size();
    if (n == 0) continue;
    for (std::size_t p = 0; p < places.size(); ++p) found[p] += sums[first_of(places[p], rows.width)] / whole(n, p);
  }
  for (double& mean : found) mean /= static_cast<double>(rows.labels.size());
  return found;
}

}  // namespace

void check(const RaggedRows& rows) {
  const std::string n = std::to_string(rows.ids.size());
  if (rows.indptr.empty() || rows.indptr.front() != 0 || rows.indptr.back() != static_cast<Offset>(rows.ids.size())) {
    throw std::invalid_argument("indptr must go from 0 to the number of entries, " + n);
  }
  for (std::size_t i = 0; i + 1 < rows.indptr.size(); ++i) {
    if (rows.indptr[i] > rows.indptr[i + 1]) {
      throw std::invalid_argument("indptr falls from " + std::to_string(rows.indptr[i]) + " to " +
                                  std::to_string(rows.indptr[i + 1]) + " behind row " + std::to_string(i));
    }
  }
}

void label_hits(const Ranked& rows, std::span<bool> right) {
  check(rows);
  if (right.size() != rows.predicted.size()) throw std::invalid_argument("there must be a place for each prediction");
  for (std::size_t i = 0; i < rows.labels.size(); ++i) {
    for (std::size_t j = 0; j < rows.width; ++j) {
      right[i * rows.width + j] = is_among(rows.labels.row(i), rows.of(i)[j]);
    }
  }
}

std::pair<Index, std::size_t> twice_predicted(std::span<const Index> predicted, std::size_t width) {
  std::vector<Index> row;
  for (std::size_t i = 0; width > 0 && i < predicted.size() / width; ++i) {
    row.assign(predicted.begin() + static_cast<std::ptrdiff_t>(i * width),
               predicted.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    std::erase_if(row, [](Index id) { return id < 0; });
    std::ranges::sort(row);
    if (const auto at = std::ranges::adjacent_find(row); at != row.end()) return {*at, i};
  }
  return {-1, 0};
}

std::vector<double> ranking_means(std::string_view measure, const Ranked& rows, std::span<const std::int64_t> places) {
  check(rows);
  check(places);
  const auto one = [](std::size_t, Index) { return 1.0; };
  if (measure == "precision") {
    std::vector<double> found = means(rows, places, one, [](std::size_t, std::size_t) { return 1.0; });
    for (std::size_t p = 0; p < places.size(); ++p) found[p] /= static_cast<double>(places[p]);
    return found;
  }
  if (measure == "recall") {
    return means(rows, places, one, [](std::size_t n, std::size_t) { return static_cast<double>(n); });
  }
  if (measure == "ndcg") {
    std::vector<double> largest{0};  // by the number of labels that are among the first, as many as any row has
    for (std::size_t i = 0; i < rows.labels.size(); ++i) {
      while (largest.size() <= rows.labels.row(i).size())
        largest.push_back(largest.back() + discount(largest.size() - 1));
    }
    return means(
        rows, places, [](std::size_t j, Index) { return discount(j); },
        [&](std::size_t n, std::size_t p) { return largest[first_of(places[p], n)]; });
  }
  if (measure == "reciprocal_rank") {
    std::vector<double> found(places.size());
    for (std::size_t i = 0; i < rows.labels.size(); ++i) {
      const std::span<const Index> labels = rows.labels.row(i), predicted = rows.of(i);
      const auto at = std::ranges::find_if(predicted, [&](Index id) { return is_among(labels, id); });
      if (at == predicted.end()) continue;
      const auto rank = static_cast<std::size_t>(at - predicted.begin()) + 1;
      for (std::size_t p = 0; p < places.size(); ++p) {
        if (rank <= static_cast<std::size_t>(places[p])) found[p] += 1 / static_cast<double>(rank);
      }
    }
    for (double& mean : found) mean /= static_cast<double>(rows.labels.size());
    return found;
  }
  throw std::invalid_argument("measure is '" + std::string(measure) +
                              "'; it must be one of 'precision', 'recall', 'ndcg', 'reciprocal_rank'");
}

std::vector<double> ranking_shares(const Ranked& rows, std::span<const std::int64_t> places,
                                   std::span<const double> gains) {
  check(rows);
  check(places);
  const auto fits = [&](Index id) { return id >= 0 && static_cast<std::size_t>(id) < gains.size(); };
  if (!std::ranges::all_of(rows.labels.ids, fits)) throw std::invalid_argument("a label is out of range");
  const auto gain = [&](Index id) { return gains[static_cast<std::size_t>(id)]; };
  std::vector<double> reached(places.size()), largest(places.size()), sums, of_labels;
  for (std::size_t i = 0; i < rows.labels.size(); ++i) {
    add_gains(rows, i, [&](std::size_t, Index id) { return gain(id); }, sums);
    of_labels.clear();
    for (const Index id : rows.labels.row(i)) of_labels.push_back(gain(id));
    std::ranges::sort(of_labels, std::greater());
    for (std::size_t p = 0; p < places.size(); ++p) {
      reached[p] += sums[first_of(places[p], rows.width)];
      for (std::size_t j = 0; j < first_of(places[p], of_labels.size()); ++j) largest[p] += of_labels[j];
    }
  }
  for (std::size_t p = 0; p < places.size(); ++p) reached[p] /= largest[p];
  return reached;
}

std::vector<std::size_t> labels_covered(std::span<const Index> predicted, std::size_t width,
                                        std::span<const std::int64_t> places, std::size_t n_labels) {
  check(places);
  std::vector<std::size_t> first(n_labels, std::numeric_limits<std::size_t>::max());  // place, from 1, in any row
  for (std::size_t at = 0; at < predicted.size(); ++at) {
    if (predicted[at] < 0) continue;
    const auto id = static_cast<std::size_t>(predicted[at]);
    if (id >= n_labels) throw std::invalid_argument("a label is out of range");
    first[id] = std::min(first[id], at % width + 1);
  }
  std::vector<std::size_t> found;
  for (const std::int64_t k : places) {
    found.push_back(static_cast<std::size_t>(
        std::ranges::count_if(first, [k](std::size_t place) { return place <= static_cast<std::size_t>(k); })));
  }
  return found;
}

void best_of_rows(const RaggedRows& rows, std::span<const double> scores, std::size_t k, std::span<Index> best,
                  std::span<double> values) {
  check(rows);
  if (scores.size() != rows.ids.size()) {
    throw std::invalid_argument("there are " + std::to_string(rows.ids.size()) + " ids and " +
                                std::to_string(scores.size()) + " scores");
  }
  if (best.size() != rows.size() * k || values.size() != best.size()) {
    throw std::invalid_argument("there must be k places for each row");
  }
  std::vector<std::pair<double, Index>> row;  // (-score, id): the order of pairs is the one that is wanted
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const Index> ids = rows.row(i);
    row.clear();
    for (std::size_t j = 0; j < ids.size(); ++j) {
      row.emplace_back(-scores[static_cast<std::size_t>(rows.indptr[i]) + j], ids[j]);
    }
    std::ranges::partial_sort(row, row.begin() + static_cast<std::ptrdiff_t>(std::min(row.size(), k)));
    for (std::size_t j = 0; j < k; ++j) {
      best[i * k + j] = j < row.size() ? row[j].second : -1;
      values[i * k + j] = j < row.size() ? -row[j].first : 0;
    }
  }
}

std::optional<double> best_threshold(const RankedValues& question, std::size_t n) {
  const Ranked& rows = question.rows;
  check(rows);
  const std::size_t n_rows = rows.labels.size(), size = rows.predicted.size();
  if (question.values.size() != size || question.weights.size() != n_rows || n > rows.width) {
    throw std::invalid_argument("the values, the weights or the number of labels do not fit the predictions");
  }
  if (!std::ranges::all_of(question.values, [](double value) { return std::isfinite(value); })) return std::nullopt;
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return question.values[a] > question.values[b]; });
  double n_true = 0, n_all = 0, known = 0;  // by the weights of the rows
  for (std::size_t i = 0; i < n_rows; ++i) {
    n_true += question.weights[i] * static_cast<double>(rows.labels.row(i).size());
    n_all += question.weights[i];
  }
  std::size_t last = 0;
  while (last < size && (known += question.weights[order[last] / rows.width]) < n_true) ++last;
  if (last + 1 >= size) return std::nullopt;
  const double limit = (question.values[order[last]] + question.values[order[last + 1]]) / 2;
  double right_above = 0, above = 0, right_first = 0;
  for (std::size_t at = 0; at < size; ++at) {
    const std::size_t i = at / rows.width, j = at % rows.width;
    const double right = is_among(rows.labels.row(i), rows.predicted[at]) ? question.weights[i] : 0;
    right_first += j < n ? right : 0;
    if (j > 0 && !(question.values[at] > limit)) continue;
    right_above += right;
    above += question.weights[i];
  }
  if (right_above / (above + n_true) <= right_first / (static_cast<double>(n) * n_all + n_true)) return std::nullopt;
  return limit;
}

std::pair<Index, std::size_t> sort_rows(std::span<const Offset> indptr, std::span<Index> ids) {
  check(RaggedRows{indptr, ids});
  std::pair<Index, std::size_t> twice{-1, 0};
  for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
    const auto begin = static_cast<std::size_t>(indptr[i]);
    const auto row = ids.subspan(begin, static_cast<std::size_t>(indptr[i + 1]) - begin);
    std::ranges::sort(row);
    const auto at = std::ranges::adjacent_find(row);
    if (at != row.end() && twice.first < 0) twice = {*at, i};
  }
  return twice;
}

}  // namespace manyclass
