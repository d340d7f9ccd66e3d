// Spherical k-means: unit centroids, each row with the centroid of largest cosine.
//
// Lloyd's iteration for   max over centroids, |c_j| = 1, of the sum over rows of max_j c_j.w_i / |w_i|:   each row goes
// to the best centroid, then each centroid to the best place for its rows, their summed directions made a unit vector
// (by Cauchy and Schwarz). A cluster left empty takes the row that its own centroid fits worst.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/simd.hpp"
#include "manyclass/search/codes.hpp"
#include "manyclass/search/exact.hpp"
#include "manyclass/search/float_block.hpp"

namespace manyclass {

// Throws std::invalid_argument where a row is not finite or longer than largest_norm.
void check_rows(const RowsView& rows, std::size_t n, int n_threads, Isa isa);

// What is clustered: the directions w / |w|. With an augmenting radius M > 0 they have one more coordinate,
// (w / M, sqrt(1 - |w|^2 / M^2)), all of unit length for |w| <= M: short rows gather in clusters whose centroid has
// little left for c.(q, 0), so that clusters of long rows are probed first. A row longer than M counts as one of length
// M.
class Directions {
 public:
  Directions(std::size_t n_features, float radius) : n_features_(n_features), radius_(radius) {}

  std::size_t n_features() const { return n_features_ + (radius_ > 0 ? 1 : 0); }
  float radius() const { return radius_; }

  // False, and zeros, where w is zero and radius is, too.
  bool write(DenseRow w, Isa isa, std::span<float> direction) const;

 private:
  std::size_t n_features_;
  float radius_;
};

// Unit vectors to be nearest to, with their codes and, where they are short, by column.
class Centroids {
 public:
  Centroids(std::vector<float> rows, std::size_t n_features, Isa isa);

  std::size_t size() const { return rows_.size() / n_features_; }
  RowsView rows() const { return {rows_.data(), n_features_}; }
  const CodeBlock& codes() const { return codes_; }

  // The nearest centroid of each direction (row-major) and the cosine to it; equal cosines by index.
  void nearest(std::span<const float> directions, Isa isa, std::span<Scored> best) const;

 private:
  std::vector<float> rows_;
  std::size_t n_features_;
  CodeBlock codes_;
  FloatBlock floats_;  // of at most most_floats columns; empty where there are more
};

struct KMeansOptions {
  std::size_t n_clusters;
  int n_iter;
  std::size_t sample_per_cluster;  // 0: all rows take part
  std::uint64_t seed;
  int n_threads;
  Isa isa;
};

// One iteration: measured after the assignment, before the centroids move.
struct KMeansIteration {
  double mean_cosine = 0;
  std::size_t moved = 0;     // rows whose cluster differs from the iteration before; all in the first
  std::size_t repaired = 0;  // empty clusters that were given a row
  std::vector<Index> sizes;  // after the repair
};

struct KMeansResult {
  std::vector<float> centroids;  // n_clusters x Directions::n_features()
  std::vector<KMeansIteration> iterations;
  std::size_t n_sampled = 0;
};

// Stops before n_iter where no row moves; throws as check_rows does. The same bits for any number of threads.
KMeansResult spherical_kmeans(const RowsView& rows, std::size_t n_rows, const Directions& directions,
                              const KMeansOptions& options);

}  // namespace manyclass
