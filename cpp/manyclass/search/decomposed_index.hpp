// An index per block of columns of W: what is large in some block is found by cheap searches in few dimensions.
//
// The D columns of W (K x D) are cut into B blocks whose sizes differ by at most one; z = W phi is then the sum over j
// of z_j = W^(j) phi^(j) (Yen et al., ICML 2018, section 3). The rows of a block stand in spherical clusters as floats;
// a search reads the clusters whose centroids have the largest c.phi^(j).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/simd.hpp"
#include "manyclass/search/cluster_index.hpp"
#include "manyclass/search/clusters.hpp"
#include "manyclass/search/exact.hpp"
#include "manyclass/search/float_block.hpp"

namespace manyclass {

// Which classes of a block are wanted: those of the highest scores, or of the largest magnitudes.
//
// Algorithms 1 and 2 of the paper search |z_k| > threshold; its implementation, and the default here, takes the highest
// scores: what is far below zero has no gradient in any of the losses, and would count as 0 where it were not found.
struct FindOptions {
  std::size_t budget = 0;   // Q, the classes of highest score; 0: all whose |score| is above `threshold`
  float threshold = 0;      // >= 0
  std::size_t n_probe = 1;  // clusters read, in [1, C]
  Isa isa = Isa::baseline;
  bool fill = false;  // in place of n_probe as many clusters, best first, as hold `budget` rows that are not excluded
};

// Room that a search needs, kept between searches of one thread.
struct FindMemory {
  std::vector<float> scores;
  std::vector<Index> ids;
  std::vector<float> highs;
  std::vector<Scored> probes;
  std::vector<std::size_t> excluded;
  // Since a caller has set them to 0: rows scored, and multiplications for them and for centroids. A row that is read
  // in several blocks counts in each.
  std::size_t n_scanned = 0;
  std::size_t n_multiplied = 0;
};

// Throws std::invalid_argument where a query is not finite or too long.
void check_query(DenseRow phi, Isa isa);

class DecomposedIndex {
 public:
  // centroids[j]: C x d_j, for each block j; labels[j]: the cluster of each row in block j, or empty: the nearest.
  // Throws std::invalid_argument where a row is not finite or longer than largest_norm.
  DecomposedIndex(std::vector<float> rows, std::size_t n_features, std::vector<std::vector<float>> centroids,
                  std::span<const std::vector<Index>> labels, int n_threads, Isa isa);

  std::size_t n_rows() const { return rows_.size() / n_features_; }
  std::size_t n_features() const { return n_features_; }
  std::size_t n_blocks() const { return blocks_.size(); }
  std::size_t n_clusters() const { return blocks_.front().clusters.size(); }
  RowsView rows() const { return {rows_.data(), n_features_}; }
  Index label(std::size_t block, std::size_t id) const { return blocks_[block].clusters.label(id); }

  // Row ids[i] becomes rows[i] and goes to the nearest centroid of each block: K_r C D operations for K_r rows. Ids are
  // distinct; those from K on are new rows. Changes nothing where it throws, as the constructor does.
  void update(std::span<const Index> ids, const RowsView& rows, int n_threads, Isa isa);

  // The parts of an update, for a caller that shares them out: the clusters of one block, and the rows themselves. Rows
  // are finite and no longer than largest_norm.
  void update_block(std::size_t block, std::span<const Index> ids, const RowsView& rows, Isa isa);
  void update_rows(std::span<const Index> ids, const RowsView& rows);

  // Takes rows out, which no search finds any more; their ids stay.
  void remove(std::span<const Index> ids) {
    for (const Index id : ids) {
      for (Block& block : blocks_) block.clusters.remove(id);
      std::fill_n(rows_.data() + static_cast<std::size_t>(id) * n_features_, n_features_, 0.0F);
    }
  }

  void check(DenseRow phi, Isa isa) const { check_query(phi, isa); }

  // Appends to `found` the wanted classes among those read in a block, in no order, but those in `excluded`; which ones
  // does not depend on where rows stand (equal scores by id).
  void find(std::size_t block, DenseRow phi, const FindOptions& options, std::span<const Index> excluded,
            FindMemory& memory, std::vector<Scored>& found) const;

  // z[j * ids.size() + i] = [z_j]_k for k = ids[i] and each block j.
  void block_scores(std::span<const Index> ids, DenseRow phi, Isa isa, std::span<float> z) const;

  // The k best of all classes that find() gives in some block, by their whole scores: best first, equal ones by id. The
  // answer does not depend on where rows stand or on the number of threads.
  void search(const DenseView& queries, std::size_t k, const FindOptions& options, const Excluded& excluded,
              int n_threads, const Deliver& deliver) const;

 private:
  struct Block {
    std::size_t begin;  // first column
    std::size_t width;
    Clusters<FloatBlock> clusters;
    FloatBlock centroids;

    DenseRow of(DenseRow row) const { return row.subspan(begin, width); }
  };

  // The columns of a block of n rows.
  static std::vector<float> columns(const RowsView& rows, std::size_t n, std::size_t begin, std::size_t width);
  void probe(const Block& block, DenseRow q, const FindOptions& options, std::size_t n_excluded,
             FindMemory& memory) const;

  std::size_t n_features_;
  std::vector<float> rows_;  // by id
  std::vector<Block> blocks_;
};

}  // namespace manyclass
