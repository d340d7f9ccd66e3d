// Building and updating the index: see the header; its queries are in cluster_search.cpp.
#include "manyclass/search/cluster_index.hpp"

#include <algorithm>

#include "manyclass/core/parallel.hpp"

namespace manyclass {

namespace {

constexpr std::size_t tile_rows = 256;  // a thread's bite
constexpr std::size_t slack_share = 8;  // a new cluster has room for an eighth more rows

std::size_t tiles_of(std::size_t n) { return (n + tile_rows - 1) / tile_rows; }

}  // namespace

ClusterIndex::ClusterIndex(std::vector<float> rows, Directions directions, std::vector<float> centroids,
                           std::span<const Index> labels, int n_threads, Isa isa)
    : n_features_(directions.n_features() - (directions.radius() > 0 ? 1 : 0)),
      rows_(std::move(rows)),
      directions_(directions),
      centroids_(std::move(centroids), directions.n_features(), isa),
      places_(rows_.size() / n_features_) {
  for (std::size_t c = 0; c < centroids_.size(); ++c) clusters_.emplace_back(n_features_);
  check_rows(this->rows(), n_rows(), n_threads, isa);
  if (labels.empty()) {
    const std::vector<Scored> found = nearest(this->rows(), n_rows(), n_threads, isa);
    for (std::size_t id = 0; id < n_rows(); ++id) places_[id].cluster = found[id].id;
  } else {
    for (std::size_t id = 0; id < n_rows(); ++id) places_[id].cluster = labels[id];
  }
  std::vector<std::vector<Index>> members(n_clusters());
  for (std::size_t id = 0; id < n_rows(); ++id) {
    members[static_cast<std::size_t>(places_[id].cluster)].push_back(static_cast<Index>(id));
  }
  parallel_for(n_threads, n_clusters(), [&](std::size_t c) {
    clusters_[c].reserve(members[c].size() + members[c].size() / slack_share);
    for (const Index id : members[c]) append(id, static_cast<Index>(c), isa);
  });
}

void ClusterIndex::append(Index id, Index cluster, Isa isa) {
  CodeBlock& block = clusters_[static_cast<std::size_t>(cluster)];
  places_[static_cast<std::size_t>(id)] = {cluster, static_cast<Index>(block.size())};
  block.append(id, rows()[id], isa);
}

std::vector<Scored> ClusterIndex::nearest(const RowsView& rows, std::size_t n, int n_threads, Isa isa) const {
  const std::size_t width = directions_.n_features();
  std::vector<Scored> found(n);
  parallel_for(n_threads, tiles_of(n), [&](std::size_t tile) {
    const std::size_t begin = tile * tile_rows;
    const std::size_t size = std::min(tile_rows, n - begin);
    std::vector<float> tile_directions(size * width);
    for (std::size_t i = 0; i < size; ++i) {
      directions_.write(rows[static_cast<Index>(begin + i)], isa, std::span(tile_directions).subspan(i * width, width));
    }
    centroids_.nearest(tile_directions, isa, std::span(found).subspan(begin, size));
  });
  return found;
}

void ClusterIndex::update(std::span<const Index> ids, const RowsView& rows, int n_threads, Isa isa) {
  // Some 10 ms of one thread; below that a busy machine takes longer to start a second thread than the work takes.
  constexpr double products_worth_a_thread = 0x1p30;
  const double products = static_cast<double>(ids.size() * n_clusters()) * static_cast<double>(n_features_);
  const int threads = products < products_worth_a_thread ? 1 : n_threads;
  check_rows(rows, ids.size(), threads, isa);
  replace(ids, rows, nearest(rows, ids.size(), threads, isa), isa);
}

void ClusterIndex::replace(std::span<const Index> ids, const RowsView& rows, std::span<const Scored> found, Isa isa) {
  constexpr std::size_t ahead = 2;  // rows whose memory is on its way
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + ahead < ids.size()) {
      const Place next = places_[static_cast<std::size_t>(ids[i + ahead])];
      const CodeBlock& from = clusters_[static_cast<std::size_t>(next.cluster)];
      const CodeBlock& to = clusters_[static_cast<std::size_t>(found[i + ahead].id)];
      from.prefetch(static_cast<std::size_t>(next.slot));
      if (&from != &to) {
        from.prefetch(from.size() - 1);
        to.prefetch(to.size());
      }
    }
    const Index id = ids[i];
    const DenseRow row = rows[static_cast<Index>(i)];
    std::ranges::copy(row, rows_.data() + static_cast<std::size_t>(id) * n_features_);
    const Place place = places_[static_cast<std::size_t>(id)];
    CodeBlock& block = clusters_[static_cast<std::size_t>(place.cluster)];
    if (found[i].id == place.cluster) {
      block.replace(static_cast<std::size_t>(place.slot), row, isa);
      continue;
    }
    const Index moved = block.remove(static_cast<std::size_t>(place.slot));
    if (moved >= 0) places_[static_cast<std::size_t>(moved)].slot = place.slot;
    append(id, found[i].id, isa);
  }
}

}  // namespace manyclass
