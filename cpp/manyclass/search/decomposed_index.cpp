// Searches in blocks of columns: see the header.
#include "manyclass/search/decomposed_index.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

#include "manyclass/core/parallel.hpp"
#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// Appends the `budget` best of n > budget scored rows.
//
// Scores are counted in equal bins from the highest down: the bin of a score falls as the score rises, also when
// rounded, so all bins before the one that holds the last place are in, and only within that one is anything compared.
void keep_best(std::span<const float> scores, std::span<const Index> ids, std::size_t budget, Isa isa,
               FindMemory& memory, std::vector<Scored>& found) {
  constexpr std::size_t n_bins = 2048;
  constexpr std::size_t lanes = 16;
  const std::size_t n = scores.size();
  std::array<std::uint32_t, n_bins> counts{};
  memory.bins.resize(n);
  memory.edge.resize(n);
  const std::size_t before = found.size();
  found.resize(before + budget + 1);  // one more: each store below is made before it is known to count
  run_with(isa, [&] {
    std::array<float, lanes> highs;
    std::array<float, lanes> lows;
    highs.fill(scores[0]);
    lows.fill(scores[0]);
    const std::size_t full = n / lanes * lanes;
    for (std::size_t i = 0; i < full; i += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) {
        highs[l] = scores[i + l] > highs[l] ? scores[i + l] : highs[l];
        lows[l] = scores[i + l] < lows[l] ? scores[i + l] : lows[l];
      }
    }
    float high = scores[0];
    float low = scores[0];
    for (const float z : highs) high = z > high ? z : high;
    for (const float z : lows) low = z < low ? z : low;
    for (std::size_t i = full; i < n; ++i) {
      high = scores[i] > high ? scores[i] : high;
      low = scores[i] < low ? scores[i] : low;
    }
    constexpr auto last = static_cast<float>(n_bins - 1);
    const float span = high - low;
    const float scale = span > 0x1p-100F ? last / span : 0;  // else all in one bin
    for (std::size_t i = 0; i < n; ++i) {
      const float bin = (high - scores[i]) * scale;
      memory.bins[i] = static_cast<std::uint16_t>(static_cast<std::int32_t>(bin < last ? bin : last));
    }
  });
  for (const std::uint16_t bin : memory.bins) ++counts[bin];
  std::size_t edge = 0;
  std::size_t above = 0;
  while (above + counts[edge] < budget) above += counts[edge++];

  Scored* in = found.data() + before;
  Scored* on = memory.edge.data();
  for (std::size_t i = 0; i < n; ++i) {
    const Scored row{scores[i], ids[i]};
    *in = row;
    *on = row;
    in += static_cast<std::ptrdiff_t>(memory.bins[i] < edge);
    on += static_cast<std::ptrdiff_t>(memory.bins[i] == edge);
  }
  const std::size_t left = budget - above;
  std::nth_element(memory.edge.data(), memory.edge.data() + left - 1, memory.edge.data() + counts[edge]);
  std::copy_n(memory.edge.data(), left, in);
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

DecomposedIndex::DecomposedIndex(std::vector<float> rows, std::size_t n_features,
                                 std::vector<std::vector<float>> centroids, std::span<const std::vector<Index>> labels,
                                 int n_threads, Isa isa)
    : n_features_(n_features), rows_(std::move(rows)) {
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
         Clusters<FloatBlock>({own.data(), width}, n_rows(), Directions(width, 0), std::move(centroids[j]),
                              labels.empty() ? std::span<const Index>() : labels[j], n_threads, isa),
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
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::ranges::copy(rows[static_cast<Index>(i)], rows_.data() + at(ids[i]) * n_features_);
  }
}

// Fills memory.probes: the n_probe centroids of largest score.
void DecomposedIndex::probe(const Block& block, DenseRow q, const FindOptions& options, FindMemory& memory) const {
  const std::size_t n = block.clusters.size();
  memory.scores.resize(n + group_rows);
  memory.probes.resize(n);
  run_with(options.isa, [&] { block.centroids.scores(q, memory.scores.data()); });
  for (std::size_t c = 0; c < n; ++c) memory.probes[c] = {memory.scores[c], static_cast<Index>(c)};
  if (options.n_probe < n) {
    const auto end = memory.probes.begin() + static_cast<std::ptrdiff_t>(options.n_probe);
    std::nth_element(memory.probes.begin(), end, memory.probes.end());
    memory.probes.erase(end, memory.probes.end());
  }
}

void DecomposedIndex::find(std::size_t j, DenseRow phi, const FindOptions& options, std::span<const Index> excluded,
                           FindMemory& memory, std::vector<Scored>& found) const {
  const Block& block = blocks_[j];
  const DenseRow q = block.of(phi);
  probe(block, q, options, memory);
  std::size_t n = 0;
  for (const Scored& probed : memory.probes) n += block.clusters[at(probed.id)].size();
  memory.scores.resize(n + group_rows);
  memory.ids.resize(n);
  memory.excluded.clear();
  n = 0;
  for (const Scored& probed : memory.probes) {
    const FloatBlock& rows = block.clusters[at(probed.id)];
    run_with(options.isa, [&] { rows.scores(q, memory.scores.data() + n); });
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
      found.clear();
      for (std::size_t j = 0; j < n_blocks(); ++j) find(j, phi, options, excluded.of(i), memory, found);
      std::ranges::sort(found, {}, &Scored::id);
      const auto repeated = std::ranges::unique(found, {}, &Scored::id);
      found.erase(repeated.begin(), repeated.end());
      exact_scores(rows(), phi, options.isa, found);
      const std::size_t best = std::min(k, found.size());
      std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(best), found.end());
      deliver(i, std::span(found).first(best));
    }
  });
}

}  // namespace manyclass
