// An index for maximum inner product search that follows its rows: coded rows by cluster, probed nearest cluster first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "manyclass/core/lists.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/search/best.hpp"
#include "manyclass/search/clusters.hpp"
#include "manyclass/search/codes.hpp"
#include "manyclass/search/dense_tile.hpp"
#include "manyclass/search/exact.hpp"
#include "manyclass/search/spherical_kmeans.hpp"

namespace manyclass {

struct Request {
  std::size_t k = 0;                  // best rows wanted; 0: all whose score is above `thresholds`
  std::span<const float> thresholds;  // a query each; read where k is 0
  std::size_t n_probe = 0;            // clusters scanned, in [1, C]
  Excluded excluded;
  int n_threads = 1;
  Isa isa = Isa::baseline;
  std::span<std::size_t> n_scanned{};  // rows in the clusters scanned, to be written for each query; or empty
  // In place of n_probe clusters as many, best first, as hold k rows that are not excluded (Yen et al. 2018, sec. 5).
  bool fill = false;
  // Whether a query whose clusters hold fewer than k rows that are not excluded is answered with `fill` instead.
  bool always_k = false;
};

// Called for each query once, from any thread, with its rows best first.
using Deliver = std::function<void(std::size_t query, std::span<const Scored> rows)>;

class ClusterIndex {
 public:
  // `labels` (K) says the cluster of each row, -1 where there is none; where it is empty each row goes to the nearest
  // centroid. Rows are kept beside their codes unless these stand alone, as halves where they are
  // rounded to these. Throws std::invalid_argument where a row is
  // not finite or longer than largest_norm.
  ClusterIndex(const RowsView& rows, std::size_t n, const Coding& coding, Directions directions,
               std::vector<float> centroids, std::span<const Index> labels, int n_threads, Isa isa);
  // Of rows that codes() has written, which stand alone. Throws std::invalid_argument where a row is not finite.
  ClusterIndex(std::span<const std::byte> codes, const Coding& coding, Directions directions,
               std::vector<float> centroids, std::span<const Index> labels, int n_threads, Isa isa);

  std::size_t n_rows() const { return clusters_.n_rows(); }
  std::size_t n_features() const { return coding_.n_features; }
  std::size_t n_clusters() const { return clusters_.size(); }
  const Coding& coding() const { return coding_; }
  // A row, or what its code says; zeros where there is none.
  void read(Index id, std::span<float> row) const;
  // Codes by id, in bytes_of_code() bytes each, where they stand alone.
  std::vector<std::byte> codes() const;
  // Bytes of memory.
  std::size_t n_bytes() const;
  RowsView centroids() const { return clusters_.centroids().rows(); }
  float radius() const { return clusters_.directions().radius(); }
  Index label(std::size_t id) const { return clusters_.label(id); }
  std::size_t size_of(std::size_t cluster) const { return clusters_[cluster].size(); }

  // Row ids[i] becomes rows[i] and goes to the nearest centroid: K_r C D operations for K_r rows (Yen et al. 2018,
  // section 4). Ids are distinct; those from K on are new rows. Changes nothing where it throws, as the constructor
  // does.
  void update(std::span<const Index> ids, const RowsView& rows, int n_threads, Isa isa);

  // Takes rows out, which no search finds any more; their ids stay.
  void remove(std::span<const Index> ids) {
    for (const Index id : ids) clusters_.remove(id);
  }

  // The two halves of an update, for a caller that shares out the first: the nearest centroid of each of n rows, and
  // row ids[i] becoming rows[i], in the cluster found[i]. Rows are finite and no longer than largest_norm.
  std::vector<Scored> nearest(const RowsView& rows, std::size_t n, Isa isa) const {
    return clusters_.nearest(rows, n, 1, isa);
  }
  void replace(std::span<const Index> ids, const RowsView& rows, std::span<const Scored> found, Isa isa);

  // The answer depends on the rows, the centroids, the labels and the request, not on where rows stand, on the other
  // queries or on the number of threads. Throws std::invalid_argument where a query is not finite or too long.
  void search(const Queries& queries, const Request& request, const Deliver& deliver) const;

 private:
  friend class Search;

  ClusterIndex(const std::vector<float>& rows, std::span<const std::byte> codes, const Coding& coding,
               Directions directions, std::vector<float> centroids, std::span<const Index> labels, int n_threads,
               Isa isa);

  // No data where rows are their codes.
  RowsView rows() const {
    return {coding_.row_bits == 32 ? rows_.data() : nullptr, n_features(),
            coding_.row_bits == 16 ? halves_.data() : nullptr};
  }
  // Keeps rows beside their codes.
  void keep(std::span<const Index> ids, const RowsView& rows);

  Coding coding_;
  std::vector<float> rows_;  // by id; or, rounded by the caller,
  std::vector<std::uint16_t> halves_;
  Clusters<CodeBlock> clusters_;
};

}  // namespace manyclass
