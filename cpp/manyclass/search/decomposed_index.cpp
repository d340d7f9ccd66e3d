// Searches in blocks of columns: see the header.
#include "manyclass/search/decomposed_index.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "manyclass/core/parallel.hpp"
#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// A value that at least `budget` of some values reach, and not many more: by halving, without a branch that depends on
// each of them. (With std::nth_element in its place keep_best took half as long again, by a profile of training.)
float bar_of(std::span<const float> values, std::size_t budget, Isa isa) {
  constexpr int most_halvings = 24;  // what is then left is a crowd of all but equal values, which is taken whole
  const std::size_t enough = budget + budget / 4;
  float low = 0;
  run_with(isa, [&] {
    const auto [least, most] = std::ranges::minmax(values);
    low = least;
    float high = most;
    for (int i = 0; i < most_halvings; ++i) {
      const float middle = low + (high - low) / 2;
      std::uint32_t n = 0;
      for (const float value : values) n += value >= middle;
      if (n < budget) {
        high = middle;
        continue;
      }
      low = middle;
      if (n <= enough) break;
    }
  });
  return low;
}

// Appends the `budget` best of n > budget scored rows.
//
// Rows are dealt to groups, at least twice as many as wanted; a score below what `budget` of the groups' highest scores
// reach is not wanted, and only rows of the groups that reach it are looked at one by one.
void keep_best(std::span<const float> scores, std::span<const Index> ids, std::size_t budget, Isa isa,
               FindMemory& memory, std::vector<Scored>& found) {
  constexpr std::size_t rows_of_group = 8;
  const std::size_t n = scores.size();
  const std::size_t n_groups = std::min(n, std::max(n / rows_of_group, 2 * budget));
  memory.highs.assign(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(n_groups));
  run_with(isa, [&] {
    float* highs = memory.highs.data();
    for (std::size_t first = n_groups; first < n; first += n_groups) {
      const float* z = scores.data() + first;
      for (std::size_t g = 0; g < std::min(n_groups, n - first); ++g) highs[g] = z[g] > highs[g] ? z[g] : highs[g];
    }
  });
  const float bar = bar_of(memory.highs, budget, isa);
  const std::size_t before = found.size();
  for (std::size_t g = 0; g < n_groups; ++g) {
    if (memory.highs[g] < bar) continue;
    for (std::size_t i = g; i < n; i += n_groups) {
      if (scores[i] >= bar) found.push_back({scores[i], ids[i]});
    }
  }
  const auto first = found.begin() + static_cast<std::ptrdiff_t>(before);
  std::nth_element(first, first + static_cast<std::ptrdiff_t>(budget - 1), found.end());
  found.resize(before + budget);
}

}  // namespace

void check_query(DenseRow phi, Isa isa) {
  if (!(norm(phi, isa) <= static_cast<double>(largest_norm))) {
    throw std::invalid_argument(
        "a query has a value that is not finite, or a norm above 2^62; scores would not be "
        "finite");
  }
}

static void check_blocks(std::span<const std::vector<float>> centroids, std::span<const std::vector<Index>> labels,
                         std::size_t n_features, std::size_t n_rows) {
  const std::size_t n = centroids.size();
  if (n < 1 || n > n_features || n_rows < 1 || (!labels.empty() && labels.size() != n)) {
    throw std::invalid_argument("there are not as many blocks as centroids, or more than columns");
  }
  const std::size_t n_clusters = centroids[0].size() / (n_features / n);
  for (std::size_t j = 0; j < n; ++j) {
    const std::size_t width = n_features * (j + 1) / n - n_features * j / n;
    if (n_clusters < 1 || centroids[j].size() != n_clusters * width) {
      throw std::invalid_argument("the centroids of a block do not fit its columns");
    }
    if (labels.empty()) continue;
    if (labels[j].size() != n_rows || std::ranges::min(labels[j]) < -1 ||
        std::ranges::max(labels[j]) >= static_cast<Index>(n_clusters)) {
      throw std::invalid_argument("a label is missing or out of range");
    }
  }
}

DecomposedIndex::DecomposedIndex(std::vector<float> rows, std::size_t n_features,
                                 std::vector<std::vector<float>> centroids, std::span<const std::vector<Index>> labels,
                                 int n_threads, Isa isa)
    : n_features_(n_features), rows_(std::move(rows)) {
  check_blocks(centroids, labels, n_features, rows_.size() / n_features);
  check_rows(this->rows(), n_rows(), n_threads, isa);
  const std::size_t n_blocks = centroids.size();
  for (std::size_t j = 0; j < n_blocks; ++j) {
    const std::size_t begin = n_features * j / n_blocks;
    const std::size_t width = n_features * (j + 1) / n_blocks - begin;
    FloatBlock probed(width);
    const RowsView units{centroids[j].data(), width};
    for (std::size_t c = 0; c < centroids[j].size() / width; ++c) {
      probed.append(static_cast<Index>(c), units[static_cast<Index>(c)], isa);
    }
    const std::vector<float> own = columns(this->rows(), n_rows(), begin, width);
    blocks_.push_back(
        {begin, width,
         Clusters<FloatBlock>(width, {own.data(), width}, n_rows(), Directions(width, 0), std::move(centroids[j]),
                              labels.empty() ? std::span<const Index>() : labels[j], n_threads, isa,
                              [&](FloatBlock& cluster, Index id) {
                                cluster.append(id, {own.data() + static_cast<std::size_t>(id) * width, width}, isa);
                              }),
         std::move(probed)});
  }
}

std::vector<float> DecomposedIndex::columns(const RowsView& rows, std::size_t n, std::size_t begin, std::size_t width) {
  std::vector<float> own(n * width);
  for (std::size_t i = 0; i < n; ++i) {
    std::ranges::copy(rows[static_cast<Index>(i)].subspan(begin, width), own.data() + i * width);
  }
  return own;
}

void DecomposedIndex::update(std::span<const Index> ids, const RowsView& rows, int n_threads, Isa isa) {
  const int threads = threads_to_update(ids.size(), n_clusters(), n_features_, n_threads);
  check_rows(rows, ids.size(), threads, isa);
  parallel_for(threads, n_blocks(), [&](std::size_t j) { update_block(j, ids, rows, isa); });
  update_rows(ids, rows);
}

void DecomposedIndex::update_block(std::size_t j, std::span<const Index> ids, const RowsView& rows, Isa isa) {
  Block& block = blocks_[j];
  const std::vector<float> own = columns(rows, ids.size(), block.begin, block.width);
  block.clusters.update(ids, {own.data(), block.width}, 1, isa);
}

void DecomposedIndex::update_rows(std::span<const Index> ids, const RowsView& rows) {
  rows_.resize(blocks_[0].clusters.n_rows() * n_features_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::ranges::copy(rows[static_cast<Index>(i)], rows_.data() + at(ids[i]) * n_features_);
  }
}

// Fills memory.probes: the n_probe centroids of largest score, or as many as the budget asks for.
void DecomposedIndex::probe(const Block& block, DenseRow q, const FindOptions& options, std::size_t n_excluded,
                            FindMemory& memory) const {
  const std::size_t n = block.clusters.size();
  memory.scores.resize(n + group_rows);
  memory.probes.clear();
  run_with(options.isa, [&](Isa isa) { block.centroids.scores(q, isa, memory.scores.data()); });
  const std::span<const float> scores = std::span<const float>(memory.scores).first(n);
  if (options.fill) {
    for (std::size_t c = 0; c < n; ++c) memory.probes.push_back({scores[c], static_cast<Index>(c)});
    std::sort(memory.probes.begin(), memory.probes.end());
    std::size_t n_rows = 0, n_probes = 0;
    while (n_probes < n && n_rows < options.budget + n_excluded) {
      n_rows += block.clusters[at(memory.probes[n_probes++].id)].size();
    }
    memory.probes.resize(n_probes);
  } else if (options.n_probe < n) {
    keep_best(scores, block.centroids.ids(), options.n_probe, options.isa, memory, memory.probes);
  } else {
    for (std::size_t c = 0; c < n; ++c) memory.probes.push_back({scores[c], static_cast<Index>(c)});
  }
}

void DecomposedIndex::find(std::size_t j, DenseRow phi, const FindOptions& options, std::span<const Index> excluded,
                           FindMemory& memory, std::vector<Scored>& found) const {
  const Block& block = blocks_[j];
  const DenseRow q = block.of(phi);
  probe(block, q, options, excluded.size(), memory);
  std::size_t n = 0;
  for (const Scored& probed : memory.probes) n += block.clusters[at(probed.id)].size();
  memory.n_scanned += n;
  memory.n_multiplied += (block.clusters.size() + n) * block.width;
  memory.scores.resize(n + group_rows);
  memory.ids.resize(n);
  memory.excluded.clear();
  n = 0;
  for (const Scored& probed : memory.probes) {
    const FloatBlock& rows = block.clusters[at(probed.id)];
    run_with(options.isa, [&](Isa isa) { rows.scores(q, isa, memory.scores.data() + n); });
    std::ranges::copy(rows.ids(), memory.ids.begin() + static_cast<std::ptrdiff_t>(n));
    for (const Index id : excluded) {
      if (block.clusters.label(at(id)) == probed.id) memory.excluded.push_back(n + at(block.clusters.slot(at(id))));
    }
    n += rows.size();
  }
  std::ranges::sort(memory.excluded, std::greater<>());  // from the last: what takes a hole is not excluded
  for (const std::size_t hole : memory.excluded) {
    --n;
    memory.scores[hole] = memory.scores[n];
    memory.ids[hole] = memory.ids[n];
  }
  if (options.budget == 0) {
    for (std::size_t i = 0; i < n; ++i) {
      if (std::fabs(memory.scores[i]) > options.threshold) found.push_back({memory.scores[i], memory.ids[i]});
    }
  } else if (n <= options.budget) {
    for (std::size_t i = 0; i < n; ++i) found.push_back({memory.scores[i], memory.ids[i]});
  } else {
    keep_best(std::span(memory.scores).first(n), std::span(memory.ids).first(n), options.budget, options.isa, memory,
              found);
  }
}

void DecomposedIndex::block_scores(std::span<const Index> ids, DenseRow phi, Isa isa, std::span<float> z) const {
  constexpr std::size_t line = 16;  // floats
  constexpr std::size_t ahead = 2;  // rows on their way from memory
  run_with(isa, [&] {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + ahead < ids.size()) {
        const float* next = rows()[ids[i + ahead]].data();
        for (std::size_t d = 0; d < n_features_; d += line) __builtin_prefetch(next + d);
      }
      for (std::size_t j = 0; j < blocks_.size(); ++j) {
        const DenseRow row = blocks_[j].of(rows()[ids[i]]);
        z[j * ids.size() + i] =
            ClassRows<const float>(row, static_cast<Index>(row.size())).score(blocks_[j].of(phi), 0);
      }
    }
  });
}

void DecomposedIndex::search(const DenseView& queries, std::size_t k, const FindOptions& options,
                             const Excluded& excluded, int n_threads, const Deliver& deliver) const {
  constexpr std::size_t tile = 16;  // queries that share the memory of a search
  const auto n = static_cast<std::size_t>(queries.n_rows());
  for (std::size_t i = 0; i < n; ++i) check(queries.row(static_cast<Index>(i)), options.isa);
  parallel_for(n_threads, (n + tile - 1) / tile, [&](std::size_t t) {
    FindMemory memory;
    std::vector<Scored> found;
    for (std::size_t i = t * tile; i < std::min(n, (t + 1) * tile); ++i) {
      const DenseRow phi = queries.row(static_cast<Index>(i));
      poll();
      // Where the clusters that are probed hold fewer than k rows, all are read.
      for (FindOptions some = options; some.n_probe > 0; some.n_probe = found.size() < k ? n_clusters() : 0) {
        found.clear();
        for (std::size_t j = 0; j < n_blocks(); ++j) find(j, phi, some, excluded.of(i), memory, found);
        std::ranges::sort(found, {}, &Scored::id);
        const auto same = [](const Scored& a, const Scored& b) { return a.id == b.id; };
        found.erase(std::unique(found.begin(), found.end(), same), found.end());
        if (some.n_probe == n_clusters()) break;
      }
      exact_scores(rows(), phi, options.isa, found);
      const std::size_t best = std::min(k, found.size());
      std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(best), found.end());
      deliver(i, std::span(found).first(best));
    }
  });
}

}  // namespace manyclass
