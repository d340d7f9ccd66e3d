// See recall.hpp.
#include "manyclass/search/recall.hpp"

#include <algorithm>
#include <mutex>

#include "manyclass/core/parallel.hpp"
#include "manyclass/search/results.hpp"

namespace manyclass {

namespace {

// The rank of each cluster for a query, the nearest being 0; equal scores by number.
std::vector<std::size_t> ranks_of(std::vector<Scored> clusters) {
  std::sort(clusters.begin(), clusters.end());
  std::vector<std::size_t> ranks(clusters.size());
  for (std::size_t rank = 0; rank < clusters.size(); ++rank) ranks[static_cast<std::size_t>(clusters[rank].id)] = rank;
  return ranks;
}

// Counts from several threads.
class Counts {
 public:
  explicit Counts(std::size_t n_clusters) : counts_(n_clusters) {}

  template <class ClusterOf>
  void add(const std::vector<std::size_t>& ranks, std::span<const Scored> rows, const ClusterOf& cluster_of) {
    const std::lock_guard lock(mutex_);
    for (const Scored& row : rows) ++counts_[ranks[static_cast<std::size_t>(cluster_of(row.id))]];
  }
  std::vector<Offset> taken() { return std::move(counts_); }

 private:
  std::mutex mutex_;
  std::vector<Offset> counts_;
};

}  // namespace

std::vector<Offset> rows_by_rank(const ClusterIndex& index, const DenseView& queries, std::size_t k,
                                 const Excluded& excluded, int n_threads, Isa isa) {
  const Request request{k, {}, index.n_clusters(), excluded, n_threads, isa};
  check(request, queries, index);
  const RowsView centroids = index.centroids();
  Counts counts(index.n_clusters());
  index.search(queries, request, [&](std::size_t i, std::span<const Scored> rows) {
    const DenseRow query = queries.row(static_cast<Index>(i));
    std::vector<float> q(centroids.n_features);  // centroids may have one coordinate more, in which a query has 0
    std::ranges::copy(query, q.begin());
    std::vector<Scored> clusters(index.n_clusters());
    for (std::size_t c = 0; c < clusters.size(); ++c) clusters[c].id = static_cast<Index>(c);
    exact_scores(centroids, q, isa, clusters);
    counts.add(ranks_of(std::move(clusters)), rows,
               [&](Index id) { return index.label(static_cast<std::size_t>(id)); });
  });
  return counts.taken();
}

std::vector<Offset> rows_by_rank(const DecomposedIndex& index, const DenseView& queries, std::size_t k,
                                 const Excluded& excluded, int n_threads, Isa isa) {
  const FindOptions options{k, 0, index.n_clusters(), isa};
  check_columns(queries, index.n_features());
  check(options, index.n_rows(), index.n_clusters());
  const auto n = static_cast<std::size_t>(queries.n_rows());
  if (!excluded.indptr.empty()) check(excluded, n, index.n_rows(), "exclusions");
  Counts counts(index.n_clusters());
  for (std::size_t i = 0; i < n; ++i) index.check(queries.row(static_cast<Index>(i)), isa);
  parallel_for(n_threads, n, [&](std::size_t i) {
    const DenseRow phi = queries.row(static_cast<Index>(i));
    FindMemory memory;
    std::vector<Scored> found;
    for (std::size_t j = 0; j < index.n_blocks(); ++j) {
      found.clear();
      index.find(j, phi, options, excluded.of(i), memory, found);
      // A search of all clusters leaves the scores of their centroids in its memory.
      counts.add(ranks_of(memory.probes), found,
                 [&](Index id) { return index.label(j, static_cast<std::size_t>(id)); });
    }
  });
  return counts.taken();
}

}  // namespace manyclass
