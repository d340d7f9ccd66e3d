// A ClusterIndex as one block of all columns: what Algorithm 1 of Yen et al. (ICML 2018) searches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/search/cluster_index.hpp"
#include "manyclass/search/decomposed_index.hpp"

namespace manyclass {

// Has the members of a DecomposedIndex that messages need. Allocates a few vectors a search.
class WholeRows {
 public:
  explicit WholeRows(const ClusterIndex& index) : index_(index) {}

  std::size_t n_rows() const { return index_.n_rows(); }
  std::size_t n_blocks() const { return 1; }
  std::size_t n_clusters() const { return index_.n_clusters(); }

  void check(DenseRow phi, Isa isa) const { check_query(phi, isa); }

  void find(std::size_t, DenseRow phi, const FindOptions& options, std::span<const Index> excluded, FindMemory& memory,
            std::vector<Scored>& found) const {
    search(phi, options, excluded, 1, memory, found);
    if (options.budget > 0) return;
    memory.scores.resize(phi.size());
    std::ranges::transform(phi, memory.scores.begin(), [](float x) { return -x; });
    search(memory.scores, options, excluded, -1, memory, found);
  }

  void block_scores(std::span<const Index> ids, DenseRow phi, Isa isa, std::span<float> z) const {
    std::vector<float> row(phi.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      index_.read(ids[i], row);
      Scored one{0, 0};
      exact_scores({row.data(), row.size()}, phi, isa, {&one, 1});
      z[i] = one.score;
    }
  }

 private:
  void search(DenseRow q, const FindOptions& options, std::span<const Index> excluded, float sign, FindMemory& memory,
              std::vector<Scored>& found) const {
    const Offset ends[] = {0, static_cast<Offset>(excluded.size())};
    Request request;
    request.k = options.budget;
    request.thresholds = {&options.threshold, 1};
    request.n_probe = options.n_probe;
    request.fill = options.fill;
    request.excluded = {ends, excluded};
    request.isa = options.isa;
    std::size_t n_scanned = 0;
    request.n_scanned = {&n_scanned, 1};
    index_.search(DenseView{q, 1, static_cast<Index>(q.size())}, request,
                  [&](std::size_t, std::span<const Scored> rows) {
                    for (const Scored& row : rows) found.push_back({sign * row.score, row.id});
                  });
    // Products of codes; where all clusters are read, none with centroids. Rows whose bounds do not decide are scored
    // again in full, which is not counted.
    const std::size_t n_centroids = options.fill || options.n_probe < n_clusters() ? n_clusters() : 0;
    memory.n_scanned += n_scanned;
    memory.n_multiplied += (n_centroids + n_scanned) * q.size();
  }

  const ClusterIndex& index_;
};

}  // namespace manyclass
