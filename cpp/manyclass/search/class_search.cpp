// See class_search.hpp.
#include "manyclass/search/class_search.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <variant>

#include "manyclass/search/log_normalizer.hpp"
#include "manyclass/search/results.hpp"

namespace manyclass {

ClassesFound best_classes(const ClusterIndex& index, const Queries& queries, const ClassSearch& search) {
  const std::size_t n = static_cast<std::size_t>(n_rows(queries)), k = search.k, width = search.n_head;
  if (k < 1 || k > width) throw std::invalid_argument("the head has fewer classes than are wanted");
  Request request{width, {}, search.n_probe, {}, search.n_threads, search.isa};
  check(request, queries, index);
  std::vector<float> scores(n * width);
  std::vector<Offset> ids(n * width);
  search_into(index, queries, request, scores, ids);
  request.n_probe = index.n_clusters();
  for (std::size_t i = 0; i < n; ++i) {
    if (ids[i * width + k - 1] >= 0) continue;
    const Queries one = std::visit([i](const auto& x) -> Queries { return x.rows_from(i, 1); }, queries);
    search_into(index, one, request, std::span(scores).subspan(i * width, width),
                std::span(ids).subspan(i * width, width));
  }
  ClassesFound found{std::vector<Index>(n * k), std::vector<float>(n * k), std::vector<double>(n)};
  std::vector<double> log_z(n);  // less the best score
  log_normalizers(index, queries, {ids, scores, width}, {search.n_tail, search.seed, search.first}, search.n_threads,
                  search.isa, log_z, found.std);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const double below = static_cast<double>(scores[i * width + j]) - static_cast<double>(scores[i * width]);
      found.ids[i * k + j] = static_cast<Index>(ids[i * width + j]);
      found.log_p[i * k + j] = static_cast<float>(below - log_z[i]);
    }
  }
  return found;
}

std::vector<float> centred_class_rows(const StridedRows& weights, std::span<const float> scale,
                                      std::span<const float> intercept) {
  const std::size_t n = weights.n_classes, d = weights.n_features, width = d + (intercept.empty() ? 0 : 1);
  if ((!scale.empty() && scale.size() != n) || (!intercept.empty() && intercept.size() != n)) {
    throw std::invalid_argument("scales or intercepts do not fit the weights");
  }
  std::vector<float> rows(n * width);
  std::vector<double> sums(width);
  for (std::size_t k = 0; k < n; ++k) {
    float* const row = rows.data() + k * width;
    const float* const from = weights.data + static_cast<std::ptrdiff_t>(k) * weights.by_class;
    for (std::size_t j = 0; j < d; ++j) {
      row[j] = from[static_cast<std::ptrdiff_t>(j) * weights.by_feature] * (scale.empty() ? 1.0F : scale[k]);
    }
    if (!intercept.empty()) row[d] = intercept[k];
    for (std::size_t j = 0; j < width; ++j) sums[j] += static_cast<double>(row[j]);
  }
  std::vector<float> mean(width);
  for (std::size_t j = 0; j < width; ++j) mean[j] = static_cast<float>(sums[j] / static_cast<double>(n));
  for (std::size_t at = 0; at < rows.size(); at += width) {
    for (std::size_t j = 0; j < width; ++j) rows[at + j] -= mean[j];
  }
  return rows;
}

std::pair<double, double> predicted_microseconds(const SearchedClasses& of) {
  // Fitted to models of 6,000 to 100,000 classes with 50 to 5,000 features: a weight read from end to end, of dense and
  // of sparse rows; a byte of the index; and what a class and a row cost besides.
  constexpr double dense_weight = 2e-4, sparse_weight = 6e-4, index_byte = 1.2e-4, one_class = 4e-3, searched_row = 20;
  const auto n = static_cast<double>(of.n_classes);
  const double all = n * (one_class + of.values * (of.sparse ? sparse_weight : dense_weight));
  // A byte a column for each class that is looked at, and a float for each of head and tail.
  const double looked_at =
      index_byte * (static_cast<double>(of.n_clusters) + of.share * n) + dense_weight * static_cast<double>(of.n_exact);
  return {all, searched_row + static_cast<double>(of.n_columns) * looked_at};
}

float norm_of_longest(const RowsView& rows, std::size_t n_rows) {
  // In double precision, in which squares of floats are exact and their sums finite.
  double largest = 0;
  for (std::size_t k = 0; k < n_rows; ++k) {
    double square = 0;
    for (const float w : rows[static_cast<Index>(k)]) square += static_cast<double>(w) * static_cast<double>(w);
    if (!std::isfinite(square)) return 0;
    largest = std::max(largest, square);
  }
  return static_cast<float>(std::sqrt(largest));
}

}  // namespace manyclass
