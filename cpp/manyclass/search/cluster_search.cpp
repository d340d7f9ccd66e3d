// Queries of the index: batches grouped by cluster, single queries in order of their clusters.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "manyclass/core/parallel.hpp"
#include "manyclass/search/cluster_index.hpp"
#include "manyclass/search/scan.hpp"

namespace manyclass {

namespace {

// Queries that share the reading of a cluster; what they keep stays in the second-level cache.
constexpr std::size_t most_tile = 1024;
// Bytes of codes below which a query stays on one thread: about a millisecond of reading. A team costs microseconds on
// an idle machine, but its slowest member's time slice, tens of milliseconds, on a busy one.
constexpr std::size_t bytes_worth_a_thread = std::size_t{1} << 24;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

}  // namespace

// Some neighbouring queries on their way from codes to clusters to rows.
class Search {
 public:
  Search(const ClusterIndex& index, const Queries& queries, const Request& request, std::size_t begin, std::size_t n)
      : index_(index),
        queries_(queries),
        request_(request),
        begin_(begin),
        n_(n),
        tile_(queries, begin, n, index.clusters_.directions().n_features()),
        codes_(n, index.clusters_.directions().n_features()),
        rotated_(index.coding().rotation ? n : 0, index.n_features(), index.coding().alone() ? 2 : 1),
        best_(n),
        most_(request.fill ? index.n_clusters() : request.n_probe),
        probes_(n * most_),
        n_probes_(n, request.n_probe) {
    for (std::size_t i = 0; i < n; ++i) {
      if (!codes_.encode(i, tile_[i], request.isa)) refuse(begin + i);
      if (index.coding().rotation) rotate(i);
    }
    for (std::size_t i = 0; i < n; ++i) start(best_[i], i);
    probe();
  }

  // Scans on this thread: the nearest cluster of each query first, which raises the bar for all others.
  void scan_all() {
    if (n_ == 1) {
      for (std::size_t p = 0; p < n_probes_[0]; ++p) scan_one(probes_[p]);
      return;
    }
    scan_by_cluster(0, 1);
    scan_by_cluster(1, most_);
  }

  // Scans for one query on several threads, a share of the groups each.
  void scan_together() {
    scan_one(probes_[0]);
    std::vector<std::size_t> ends;  // of each further cluster, in groups from the first
    std::size_t total = 0;
    for (std::size_t p = 1; p < n_probes_[0]; ++p) ends.push_back(total += block(probes_[p]).n_groups());
    std::vector<Best> parts(static_cast<std::size_t>(request_.n_threads));
    for (Best& part : parts) {
      part.start(request_.k, best_[0].bar(), request_.excluded.of(begin_), index_.coding().alone());
    }
    run_team(request_.n_threads, [&](const Member& member) {
      auto [group, last] = member.share(total);
      Best* part = &parts[static_cast<std::size_t>(member.rank())];
      auto p = static_cast<std::size_t>(std::ranges::upper_bound(ends, group) - ends.begin());
      for (; group < last; ++p) {
        const CodeBlock& rows = block(probes_[p + 1]);
        const std::size_t first = ends[p] - rows.n_groups();
        const std::size_t stop = std::min(last, ends[p]);
        scan(rows, group - first, stop - first, of_rows(0), std::span(&part, 1), request_.isa);
        group = stop;
      }
    });
    for (const Best& part : parts) best_[0].merge(part);
  }

  // Bytes of codes that the first query will read.
  std::size_t bytes() const {
    std::size_t groups = 0;
    for (std::size_t p = 0; p < n_probes_[0]; ++p) groups += block(probes_[p]).n_groups();
    return groups * index_.clusters_[0].stride();
  }

  void finish(const Deliver& deliver) {
    for (std::size_t i = 0; i < n_; ++i) {
      const std::span<const Scored> rows =
          best_[i].finish(index_.rows(), tile_[i].first(index_.n_features()), request_.isa);
      if (request_.always_k && rows.size() < request_.k && n_probes_[i] < index_.n_clusters()) {
        Request again = request_;
        again.fill = true;
        again.always_k = false;
        Search one(index_, queries_, again, begin_ + i, 1);
        one.scan_all();
        one.finish(deliver);
        continue;
      }
      if (!request_.n_scanned.empty()) request_.n_scanned[begin_ + i] = n_rows_read(i);
      deliver(begin_ + i, rows);
    }
  }

 private:
  void rotate(std::size_t i) {
    const DenseRow q = tile_[i].first(index_.n_features());
    std::vector<float> x(q.begin(), q.end());
    run_with(request_.isa, [&] { index_.coding().rotation->apply(x); });
    if (!rotated_.encode(i, x, request_.isa)) refuse(begin_ + i);
  }

  // The code by which a query is scored against rows.
  std::span<const QueryCode> of_rows(std::size_t i) const {
    return {&(index_.coding().rotation ? rotated_ : codes_)[i], 1};
  }

  const CodeBlock& block(Index cluster) const { return index_.clusters_[at(cluster)]; }

  std::size_t n_rows_read(std::size_t i) const {
    std::size_t n = 0;
    for (std::size_t p = 0; p < n_probes_[i]; ++p) n += block(probes_[i * most_ + p]).size();
    return n;
  }

  [[noreturn]] static void refuse(std::size_t query) {
    throw std::invalid_argument("query " + std::to_string(query) + " has a value that is not finite, or a norm above " +
                                "2^62; scores would not be finite");
  }

  void start(Best& best, std::size_t i) const {
    constexpr float lowest = std::numeric_limits<float>::lowest();
    const float bar = request_.k > 0 ? lowest : std::max(lowest, request_.thresholds[begin_ + i]);
    best.start(request_.k, bar, request_.excluded.of(begin_ + i), index_.coding().alone());
  }

  // Clusters in descending order of their centroids' scores, until they hold the rows that are wanted.
  void fill() {
    const std::size_t n_clusters = index_.n_clusters();
    std::vector<Scored> all(n_clusters);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t c = 0; c < n_clusters; ++c) all[c].id = static_cast<Index>(c);
      exact_scores(index_.clusters_.centroids().rows(), tile_[i], request_.isa, all);
      std::sort(all.begin(), all.end());
      const std::size_t wanted = request_.k + request_.excluded.of(begin_ + i).size();
      std::size_t n_rows = 0;
      n_probes_[i] = 0;
      for (; n_probes_[i] < n_clusters && n_rows < wanted; ++n_probes_[i]) n_rows += block(all[n_probes_[i]].id).size();
      keep(i, std::span(all).first(n_probes_[i]));
    }
  }

  // Fills probes_: the n_probe centroids of largest score for each query, the largest of all in front.
  void probe() {
    if (request_.fill) return fill();
    const Centroids& centroids = index_.clusters_.centroids();
    const std::size_t n_probe = request_.n_probe;
    const std::size_t n_clusters = centroids.size();
    if (n_probe == n_clusters) {
      for (std::size_t i = 0; i < n_; ++i) {
        std::iota(probes_.begin() + static_cast<std::ptrdiff_t>(i * n_probe),
                  probes_.begin() + static_cast<std::ptrdiff_t>((i + 1) * n_probe), 0);
      }
      return;
    }
    constexpr std::size_t many = 4;  // a share of the clusters above which bounds spare nothing
    if (n_probe * many >= n_clusters) {
      std::vector<Scored> all(n_clusters);
      for (std::size_t i = 0; i < n_; ++i) {
        for (std::size_t c = 0; c < n_clusters; ++c) all[c].id = static_cast<Index>(c);
        exact_scores(centroids.rows(), tile_[i], request_.isa, all);
        const auto end = all.begin() + static_cast<std::ptrdiff_t>(n_probe);
        std::nth_element(all.begin(), end - 1, all.end());
        std::iter_swap(all.begin(), std::min_element(all.begin(), end));
        keep(i, std::span(all).first(n_probe));
      }
      return;
    }
    std::array<Best, most_queries> kept;
    std::array<Best*, most_queries> to;
    std::ranges::transform(kept, to.begin(), [](Best& b) { return &b; });
    for (std::size_t i = 0; i < n_; i += most_queries) {
      const std::size_t some = std::min(most_queries, n_ - i);
      for (Best& b : kept) b.start(n_probe, std::numeric_limits<float>::lowest(), {});
      scan(centroids.codes(), codes_.some(i, some), std::span(to).first(some), request_.isa);
      for (std::size_t j = 0; j < some; ++j) {
        keep(i + j, kept[j].finish(centroids.rows(), tile_[i + j], request_.isa));
      }
    }
  }

  void keep(std::size_t i, std::span<const Scored> clusters) {
    for (std::size_t p = 0; p < clusters.size(); ++p) probes_[i * most_ + p] = clusters[p].id;
  }

  void scan_one(Index cluster) {
    Best* best = best_.data();
    scan(block(cluster), of_rows(0), std::span(&best, 1), request_.isa);
  }

  // Scans the clusters of ranks [first, last) of all queries, a cluster at a time for all queries that probe it.
  void scan_by_cluster(std::size_t first, std::size_t last) {
    const std::size_t n_clusters = index_.n_clusters();
    std::vector<std::size_t> ends(n_clusters + 1);
    const auto each = [&](const auto& f) {
      for (std::size_t i = 0; i < n_; ++i) {
        for (std::size_t p = first; p < std::min(last, n_probes_[i]); ++p) f(i, at(probes_[i * most_ + p]));
      }
    };
    each([&](std::size_t, std::size_t c) { ++ends[c + 1]; });
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    std::vector<std::size_t> members(ends.back());
    std::vector<std::size_t> next(ends.begin(), ends.end() - 1);
    each([&](std::size_t i, std::size_t c) { members[next[c]++] = i; });

    std::array<QueryCode, most_queries> codes;
    std::array<Best*, most_queries> best;
    for (std::size_t c = 0; c < n_clusters; ++c) {
      for (std::size_t m = ends[c]; m < ends[c + 1]; m += most_queries) {
        const std::size_t some = std::min(most_queries, ends[c + 1] - m);
        for (std::size_t j = 0; j < some; ++j) {
          codes[j] = of_rows(members[m + j]).front();
          best[j] = &best_[members[m + j]];
        }
        poll(block(static_cast<Index>(c)).size() * index_.n_features());
        scan(block(static_cast<Index>(c)), std::span(codes).first(some), std::span(best).first(some), request_.isa);
      }
    }
  }

  const ClusterIndex& index_;
  const Queries& queries_;
  const Request& request_;
  std::size_t begin_;
  std::size_t n_;
  DenseTile tile_;
  QueryCodes codes_;    // for centroids
  QueryCodes rotated_;  // for rows that are rotated
  std::vector<Best> best_;
  std::size_t most_;           // clusters that a query may read
  std::vector<Index> probes_;  // n x most_
  std::vector<std::size_t> n_probes_;
};

void ClusterIndex::search(const Queries& queries, const Request& request, const Deliver& deliver) const {
  const auto n = std::visit([](const auto& x) { return static_cast<std::size_t>(x.n_rows()); }, queries);
  const auto n_threads = static_cast<std::size_t>(std::max(request.n_threads, 1));
  if (n < n_threads) {
    for (std::size_t i = 0; i < n; ++i) {
      poll();
      Search one(*this, queries, request, i, 1);
      if (one.bytes() >= bytes_worth_a_thread) {
        one.scan_together();
      } else {
        one.scan_all();
      }
      one.finish(deliver);
    }
    return;
  }
  const std::size_t tile = std::min(most_tile, (n + n_threads - 1) / n_threads);
  parallel_for(request.n_threads, (n + tile - 1) / tile, [&](std::size_t t) {
    Search some(*this, queries, request, t * tile, std::min(tile, n - t * tile));
    some.scan_all();
    some.finish(deliver);
  });
}

}  // namespace manyclass
