// Building and updating the index: see the header; its queries are in cluster_search.cpp.
#include "manyclass/search/cluster_index.hpp"

#include <algorithm>

namespace manyclass {

namespace {

std::vector<float> checked(std::vector<float> rows, std::size_t n_features, int n_threads, Isa isa) {
  check_rows({rows.data(), n_features}, rows.size() / n_features, n_threads, isa);
  return rows;
}

// Centroids whose numbers the labels are.
std::vector<float> checked(std::vector<float> centroids, std::size_t width, std::span<const Index> labels,
                           std::size_t n_rows) {
  const std::size_t n = centroids.size() / width;
  if (n < 1) throw std::invalid_argument("there are no centroids");
  if (!labels.empty() && labels.size() != n_rows) throw std::invalid_argument("each row needs a label");
  for (const Index label : labels) {
    if (label < 0 || static_cast<std::size_t>(label) >= n) throw std::invalid_argument("a label is out of range");
  }
  return centroids;
}

}  // namespace

ClusterIndex::ClusterIndex(std::vector<float> rows, Directions directions, std::vector<float> centroids,
                           std::span<const Index> labels, int n_threads, Isa isa)
    : n_features_(directions.n_features() - (directions.radius() > 0 ? 1 : 0)),
      rows_(checked(std::move(rows), n_features_, n_threads, isa)),
      clusters_(this->rows(), rows_.size() / n_features_, directions,
                checked(std::move(centroids), directions.n_features(), labels, rows_.size() / n_features_), labels,
                n_threads, isa) {}

void ClusterIndex::update(std::span<const Index> ids, const RowsView& rows, int n_threads, Isa isa) {
  const int threads = threads_to_update(ids.size(), n_clusters(), n_features_, n_threads);
  check_rows(rows, ids.size(), threads, isa);
  replace(ids, rows, clusters_.nearest(rows, ids.size(), threads, isa), isa);
}

void ClusterIndex::replace(std::span<const Index> ids, const RowsView& rows, std::span<const Scored> found, Isa isa) {
  clusters_.replace(ids, rows, found, isa);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::ranges::copy(rows[static_cast<Index>(i)], rows_.data() + static_cast<std::size_t>(ids[i]) * n_features_);
  }
}

}  // namespace manyclass
