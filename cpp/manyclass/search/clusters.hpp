// Rows in clusters, each with its nearest centroid, that follow changes: what the indexes have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/search/exact.hpp"
#include "manyclass/search/spherical_kmeans.hpp"

namespace manyclass {

// A Block holds the rows of a cluster: CodeBlock as bytes with bounds, FloatBlock as floats.
template <class Block>
class Clusters {
 public:
  // `labels` (n) says the cluster of each row, -1 where there is none; where it is empty each row goes to the nearest
  // centroid. put(block, id) appends a row.
  template <class Put>
  Clusters(const typename Block::Shape& shape, const RowsView& rows, std::size_t n, Directions directions,
           std::vector<float> centroids, std::span<const Index> labels, int n_threads, Isa isa, const Put& put)
      : directions_(directions), centroids_(std::move(centroids), directions.n_features(), isa), places_(n) {
    for (std::size_t c = 0; c < centroids_.size(); ++c) blocks_.emplace_back(shape);
    if (labels.empty()) {
      const std::vector<Scored> found = nearest(rows, n, n_threads, isa);
      for (std::size_t id = 0; id < n; ++id) places_[id].cluster = found[id].id;
    } else {
      for (std::size_t id = 0; id < n; ++id) places_[id].cluster = labels[id];
    }
    std::vector<std::vector<Index>> members(size());
    for (std::size_t id = 0; id < n; ++id) {
      if (places_[id].cluster >= 0) {
        members[static_cast<std::size_t>(places_[id].cluster)].push_back(static_cast<Index>(id));
      }
    }
    parallel_for(n_threads, size(), [&](std::size_t c) {
      blocks_[c].reserve(members[c].size());
      for (const Index id : members[c]) {
        places_[static_cast<std::size_t>(id)].slot = static_cast<Index>(blocks_[c].size());
        put(blocks_[c], id);
      }
    });
  }

  std::size_t size() const { return blocks_.size(); }
  std::size_t n_rows() const { return places_.size(); }
  const Block& operator[](std::size_t cluster) const { return blocks_[cluster]; }
  const Directions& directions() const { return directions_; }
  const Centroids& centroids() const { return centroids_; }
  Index label(std::size_t id) const { return places_[id].cluster; }
  Index slot(std::size_t id) const { return places_[id].slot; }

  // Row ids[i] becomes rows[i] and goes to the nearest centroid. Ids are distinct; those from K on are new.
  void update(std::span<const Index> ids, const RowsView& rows, int n_threads, Isa isa) {
    replace(ids, rows, nearest(rows, ids.size(), n_threads, isa), isa);
  }

  // The same, where found[i] says the centroid: what a caller that shares out that part has from nearest().
  void replace(std::span<const Index> ids, const RowsView& rows, std::span<const Scored> found, Isa isa) {
    constexpr std::size_t ahead = 2;  // rows whose memory is on its way
    const std::size_t n = ids.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(ids)) + 1;
    if (n > places_.size()) places_.resize(n, absent);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::size_t later = i + ahead;
      if (later < ids.size() && places_[static_cast<std::size_t>(ids[later])].cluster >= 0) {
        const Place next = places_[static_cast<std::size_t>(ids[later])];
        const Block& from = blocks_[static_cast<std::size_t>(next.cluster)];
        const Block& to = blocks_[static_cast<std::size_t>(found[later].id)];
        from.prefetch(static_cast<std::size_t>(next.slot));
        if (&from != &to) {
          from.prefetch(from.size() - 1);
          to.prefetch(to.size());
        }
      }
      const Index id = ids[i];
      const DenseRow row = rows[static_cast<Index>(i)];
      const Place place = places_[static_cast<std::size_t>(id)];
      if (place.cluster >= 0 && found[i].id == place.cluster) {
        blocks_[static_cast<std::size_t>(place.cluster)].replace(static_cast<std::size_t>(place.slot), row, isa);
        continue;
      }
      remove(id);
      append(id, found[i].id, row, isa);
    }
  }

  // Takes the row of an id out, if there is one.
  void remove(Index id) {
    const Place place = std::exchange(places_[static_cast<std::size_t>(id)], absent);
    if (place.cluster < 0) return;
    const Index moved = blocks_[static_cast<std::size_t>(place.cluster)].remove(static_cast<std::size_t>(place.slot));
    if (moved >= 0) places_[static_cast<std::size_t>(moved)].slot = place.slot;
  }

  // The nearest centroid of each of n rows.
  std::vector<Scored> nearest(const RowsView& rows, std::size_t n, int n_threads, Isa isa) const {
    const std::size_t width = directions_.n_features();
    std::vector<Scored> found(n);
    parallel_for(n_threads, (n + tile_rows - 1) / tile_rows, [&](std::size_t tile) {
      const std::size_t begin = tile * tile_rows;
      const std::size_t size = std::min(tile_rows, n - begin);
      std::vector<float> tile_directions(size * width);
      for (std::size_t i = 0; i < size; ++i) {
        directions_.write(rows[static_cast<Index>(begin + i)], isa,
                          std::span(tile_directions).subspan(i * width, width));
      }
      centroids_.nearest(tile_directions, isa, std::span(found).subspan(begin, size));
    });
    return found;
  }

 private:
  struct Place {
    Index cluster;
    Index slot;
  };

  static constexpr Place absent{-1, -1};

  static constexpr std::size_t tile_rows = 256;  // a thread's bite

  void append(Index id, Index cluster, DenseRow row, Isa isa) {
    Block& block = blocks_[static_cast<std::size_t>(cluster)];
    places_[static_cast<std::size_t>(id)] = {cluster, static_cast<Index>(block.size())};
    block.append(id, row, isa);
  }

  Directions directions_;
  Centroids centroids_;
  std::vector<Block> blocks_;
  std::vector<Place> places_;  // by id
};

// Threads for changing so many rows. Some 2 ms of one thread; below that a busy machine may take longer to start a
// second thread than the work takes.
inline int threads_to_update(std::size_t n_rows, std::size_t n_clusters, std::size_t n_features, int n_threads) {
  constexpr double products_worth_a_thread = 0x1p27;
  const double products = static_cast<double>(n_rows * n_clusters) * static_cast<double>(n_features);
  return products < products_worth_a_thread ? 1 : n_threads;
}

}  // namespace manyclass
