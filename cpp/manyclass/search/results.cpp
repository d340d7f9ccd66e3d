// See results.hpp.
#include "manyclass/search/results.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace manyclass {

namespace {

void write_row(std::span<const Scored> rows, std::span<float> scores, std::span<Offset> ids) {
  for (std::size_t j = 0; j < scores.size(); ++j) {
    scores[j] = j < rows.size() ? rows[j].score : -std::numeric_limits<float>::infinity();
    ids[j] = j < rows.size() ? rows[j].id : -1;
  }
}

}  // namespace

void check_columns(const Queries& queries, std::size_t n_features) {
  if (static_cast<std::size_t>(n_cols(queries)) != n_features) {
    throw std::invalid_argument("the queries do not have the columns of the rows");
  }
}

void check(const Request& request, const Queries& queries, const ClusterIndex& index) {
  check_columns(queries, index.n_features());
  const auto n = static_cast<std::size_t>(n_rows(queries));
  if (request.n_probe < 1 || request.n_probe > index.n_clusters()) {
    throw std::invalid_argument("n_probe is out of range");
  }
  if (request.k > index.n_rows()) throw std::invalid_argument("k is out of range");
  if (request.k == 0 && request.thresholds.size() != n) throw std::invalid_argument("each query needs a threshold");
  if (!request.excluded.indptr.empty()) check(request.excluded, n, index.n_rows(), "exclusions");
}

void check(const FindOptions& options, std::size_t n_rows, std::size_t n_clusters) {
  if (options.budget > n_rows || !(options.threshold >= 0) || options.n_probe < 1 || options.n_probe > n_clusters) {
    throw std::invalid_argument("the options of the search are out of range");
  }
}

void search_into(const ClusterIndex& index, const Queries& queries, const Request& request, std::span<float> scores,
                 std::span<Offset> ids) {
  const std::size_t k = request.k;
  Request all = request;
  all.always_k = true;
  index.search(queries, all, [&](std::size_t i, std::span<const Scored> rows) {
    write_row(rows, scores.subspan(i * k, k), ids.subspan(i * k, k));
  });
}

void search_into(const DecomposedIndex& index, const DenseView& queries, std::size_t k, const FindOptions& options,
                 const Excluded& excluded, int n_threads, std::span<float> scores, std::span<Offset> ids) {
  check_columns(queries, index.n_features());
  check(options, index.n_rows(), index.n_clusters());
  if (k < 1 || k > index.n_rows()) throw std::invalid_argument("k is out of range");
  if (!excluded.indptr.empty()) {
    check(excluded, static_cast<std::size_t>(queries.rows), index.n_rows(), "exclusions");
  }
  index.search(queries, k, options, excluded, n_threads, [&](std::size_t i, std::span<const Scored> rows) {
    write_row(rows, scores.subspan(i * k, k), ids.subspan(i * k, k));
  });
}

Lists rows_above(const ClusterIndex& index, const Queries& queries, const Request& request) {
  std::vector<std::vector<Scored>> found(static_cast<std::size_t>(n_rows(queries)));
  index.search(queries, request,
               [&](std::size_t i, std::span<const Scored> rows) { found[i].assign(rows.begin(), rows.end()); });
  Lists lists{{0}, {}, {}};
  for (const auto& rows : found) {
    for (const Scored& row : rows) {
      lists.ids.push_back(row.id);
      lists.scores.push_back(row.score);
    }
    lists.indptr.push_back(static_cast<Offset>(lists.ids.size()));
  }
  return lists;
}

std::vector<Index> labels_of(const ClusterIndex& index) {
  std::vector<Index> labels(index.n_rows());
  for (std::size_t id = 0; id < labels.size(); ++id) labels[id] = index.label(id);
  return labels;
}

std::vector<Index> labels_of(const DecomposedIndex& index) {
  std::vector<Index> labels;
  for (std::size_t j = 0; j < index.n_blocks(); ++j) {
    for (std::size_t id = 0; id < index.n_rows(); ++id) labels.push_back(index.label(j, id));
  }
  return labels;
}

std::vector<Index> sizes_of(const ClusterIndex& index) {
  std::vector<Index> sizes(index.n_clusters());
  for (std::size_t c = 0; c < sizes.size(); ++c) sizes[c] = static_cast<Index>(index.size_of(c));
  return sizes;
}

double imbalance_of(const ClusterIndex& index) {
  const std::vector<Index> sizes = sizes_of(index);
  double squares = 0, n_rows = 0;
  for (const Index size : sizes) {
    squares += static_cast<double>(size) * size;
    n_rows += size;
  }
  return static_cast<double>(sizes.size()) * squares / (n_rows * n_rows);
}

}  // namespace manyclass
