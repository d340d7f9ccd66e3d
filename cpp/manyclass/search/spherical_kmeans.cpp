// Spherical k-means: see the header.
#include "manyclass/search/spherical_kmeans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/search/scan.hpp"

namespace manyclass {

namespace {

constexpr std::size_t tile_rows = 256;  // a thread's bite
// Columns up to which scoring every centroid in floats is quicker than bounds from bytes: of 632 centroids, AVX-512,
// the nearest takes 0.33 us at 16 columns (0.95 by bytes), 0.86 (1.05) at 32, 1.6 (1.35) at 64.
constexpr std::size_t most_floats = 32;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// The rows that take part, in order, and the first directions of the centroids: distinct ones of these rows, drawn at
// random; unit vectors where there are fewer rows than clusters.
struct Start {
  std::vector<Index> sample;
  std::vector<float> centroids;
};

Start draw_start(const RowsView& rows, std::size_t n_rows, const Directions& directions, const KMeansOptions& options) {
  const std::size_t width = directions.n_features();
  std::vector<float> direction(width);
  Start start;
  std::vector<Index>& order = start.sample;
  for (std::size_t i = 0; i < n_rows; ++i) {
    if (directions.write(rows[static_cast<Index>(i)], options.isa, direction)) order.push_back(static_cast<Index>(i));
  }
  shuffle(order, Rng({options.seed, 0}, visit_order_item));
  start.centroids.assign(options.n_clusters * width, 0);
  for (std::size_t c = 0; c < options.n_clusters; ++c) {
    const auto centroid = std::span(start.centroids).subspan(c * width, width);
    if (c < order.size()) {
      directions.write(rows[order[c]], options.isa, centroid);
    } else {
      centroid[c % width] = 1;
    }
  }
  const std::size_t most = options.sample_per_cluster * options.n_clusters;
  if (most > 0 && order.size() > most) order.resize(most);
  std::ranges::sort(order);
  return start;
}

// Members of each cluster, in order: members[begin[c] .. begin[c + 1]).
struct Members {
  std::vector<std::size_t> begin;
  std::vector<std::size_t> members;

  Members(std::span<const Scored> nearest, std::size_t n_clusters) : begin(n_clusters + 1), members(nearest.size()) {
    for (const Scored& s : nearest) ++begin[at(s.id) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
    for (std::size_t i = 0; i < nearest.size(); ++i) members[next[at(nearest[i].id)]++] = i;
  }
};

// Gives each empty cluster the row with the smallest cosine to its centroid, among clusters that keep another row.
std::size_t repair(std::span<Scored> nearest, std::vector<Index>& sizes) {
  const auto n_empty = static_cast<std::size_t>(std::ranges::count(sizes, 0));
  if (n_empty == 0) return 0;
  std::vector<Index> worst(nearest.size());
  std::iota(worst.begin(), worst.end(), 0);
  std::ranges::sort(worst, {}, [&](Index i) { return std::pair(nearest[at(i)].score, i); });
  std::size_t repaired = 0;
  auto next = worst.begin();
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    if (sizes[c] > 0) continue;
    while (next != worst.end() && sizes[at(nearest[at(*next)].id)] < 2) ++next;
    if (next == worst.end()) break;
    --sizes[at(nearest[at(*next)].id)];
    nearest[at(*next)].id = static_cast<Index>(c);
    sizes[c] = 1;
    ++next;
    ++repaired;
  }
  return repaired;
}

// The highest score and the first place that has it. Plain loops over a row of lanes, which become vectors.
Scored highest(std::span<const float> scores) {
  constexpr std::size_t lanes = 64;
  const std::size_t n = scores.size() / lanes * lanes;
  float most[lanes];
  std::ranges::fill(most, std::numeric_limits<float>::lowest());
  for (std::size_t first = 0; first < n; first += lanes) {
    const float* z = scores.data() + first;
    for (std::size_t l = 0; l < lanes; ++l) most[l] = z[l] > most[l] ? z[l] : most[l];
  }
  float top = std::numeric_limits<float>::lowest();
  for (const float z : scores.subspan(n)) top = std::max(top, z);
  for (const float z : most) top = std::max(top, z);
  std::size_t first = 0;
  for (; first < n; first += lanes) {
    int met = 0;
    for (std::size_t l = 0; l < lanes; ++l) met += scores[first + l] == top;
    if (met > 0) break;
  }
  while (scores[first] < top) ++first;
  return {top, static_cast<Index>(first)};
}

}  // namespace

void check_rows(const RowsView& rows, std::size_t n, int n_threads, Isa isa) {
  parallel_for(n_threads, (n + tile_rows - 1) / tile_rows, [&](std::size_t tile) {
    const std::size_t end = std::min(n, (tile + 1) * tile_rows);
    for (std::size_t i = tile * tile_rows; i < end; ++i) {
      if (!(norm(rows[static_cast<Index>(i)], isa) <= static_cast<double>(largest_norm))) {
        throw std::invalid_argument("row " + std::to_string(i) + " has a value that is not finite, or a norm above " +
                                    "2^62; scores would not be finite");
      }
    }
  });
}

bool Directions::write(DenseRow w, Isa isa, std::span<float> direction) const {
  const double length = norm(w, isa);
  double unit = length;
  if (radius_ > 0) {
    const double r = static_cast<double>(radius_);
    unit = std::max(length, r);
    const double part = std::min(length / r, 1.0);
    direction[n_features_] = static_cast<float>(std::sqrt((1 - part) * (1 + part)));
  }
  const double inverse = unit > 0 ? 1 / unit : 0;
  run_with(isa, [&] {
    for (std::size_t j = 0; j < n_features_; ++j)
      direction[j] = static_cast<float>(static_cast<double>(w[j]) * inverse);
  });
  return unit > 0;
}

Centroids::Centroids(std::vector<float> rows, std::size_t n_features, Isa isa)
    : rows_(std::move(rows)), n_features_(n_features), codes_(Coding{n_features}), floats_(n_features) {
  const auto fill = [&](auto& block) {
    block.reserve(size());
    for (std::size_t c = 0; c < size(); ++c) {
      block.append(static_cast<Index>(c), this->rows()[static_cast<Index>(c)], isa);
    }
  };
  fill(codes_);
  if (n_features_ <= most_floats) fill(floats_);
}

void Centroids::nearest(std::span<const float> directions, Isa isa, std::span<Scored> best) const {
  const RowsView x{directions.data(), n_features_};
  if (n_features_ <= most_floats) {
    std::vector<float> scores(size() + group_rows);
    run_with(isa, [&](Isa known) {
      for (std::size_t i = 0; i < best.size(); ++i) {
        floats_.scores(x[static_cast<Index>(i)], known, scores.data());
        best[i] = highest(std::span<const float>(scores).first(size()));
      }
    });
    return;
  }
  QueryCodes codes(best.size(), n_features_);
  for (std::size_t i = 0; i < best.size(); ++i) codes.encode(i, x[static_cast<Index>(i)], isa);
  std::array<Best, most_queries> kept;
  std::array<Best*, most_queries> to;
  std::ranges::transform(kept, to.begin(), [](Best& b) { return &b; });
  for (std::size_t i = 0; i < best.size(); i += most_queries) {
    const std::size_t n = std::min(most_queries, best.size() - i);
    for (Best& b : kept) b.start(1, std::numeric_limits<float>::lowest(), {});
    scan(codes_, codes.some(i, n), std::span(to).first(n), isa);
    for (std::size_t j = 0; j < n; ++j) {
      best[i + j] = kept[j].finish(rows(), x[static_cast<Index>(i + j)], isa).front();
    }
  }
}

KMeansResult spherical_kmeans(const RowsView& rows, std::size_t n_rows, const Directions& directions,
                              const KMeansOptions& options) {
  constexpr std::size_t most_rows = std::numeric_limits<Index>::max();
  if (rows.n_features < 1 || options.n_clusters < 1 || options.n_clusters > n_rows ||
      options.sample_per_cluster > most_rows || !(directions.radius() >= 0)) {
    throw std::invalid_argument("the options of k-means are out of range");
  }
  check_rows(rows, n_rows, options.n_threads, options.isa);
  const std::size_t width = directions.n_features();
  const std::size_t n_clusters = options.n_clusters;
  Start start = draw_start(rows, n_rows, directions, options);
  const std::vector<Index>& sample = start.sample;
  const std::size_t n = sample.size();
  KMeansResult result;
  result.n_sampled = n;
  std::vector<Index> labels(n, -1);
  std::vector<Scored> nearest(n);
  std::vector<float> centroids = std::move(start.centroids);
  for (int iteration = 0; iteration < options.n_iter && n > 0; ++iteration) {
    const Centroids search(centroids, width, options.isa);
    parallel_for(options.n_threads, (n + tile_rows - 1) / tile_rows, [&](std::size_t tile) {
      const std::size_t begin = tile * tile_rows;
      const std::size_t size = std::min(tile_rows, n - begin);
      std::vector<float> tile_directions(size * width);
      for (std::size_t i = 0; i < size; ++i) {
        directions.write(rows[sample[begin + i]], options.isa, std::span(tile_directions).subspan(i * width, width));
      }
      search.nearest(tile_directions, options.isa, std::span(nearest).subspan(begin, size));
    });

    KMeansIteration now;
    now.sizes.assign(n_clusters, 0);
    for (const Scored& s : nearest) {
      now.mean_cosine += static_cast<double>(s.score) / static_cast<double>(n);
      ++now.sizes[at(s.id)];
    }
    now.repaired = repair(nearest, now.sizes);
    for (std::size_t i = 0; i < n; ++i) {
      now.moved += labels[i] != nearest[i].id ? 1 : 0;
      labels[i] = nearest[i].id;
    }
    result.iterations.push_back(now);
    if (now.moved == 0) break;

    const Members clusters(nearest, n_clusters);
    parallel_for(options.n_threads, n_clusters, [&](std::size_t c) {
      std::vector<float> direction(width);
      std::vector<double> sum(width);
      double squares = 0;
      run_with(options.isa, [&](Isa known) {
        for (std::size_t m = clusters.begin[c]; m < clusters.begin[c + 1]; ++m) {
          directions.write(rows[sample[clusters.members[m]]], known, direction);
          for (std::size_t j = 0; j < width; ++j) sum[j] += static_cast<double>(direction[j]);
        }
        for (const double s : sum) squares += s * s;
      });
      if (squares == 0) return;  // no rows, or rows that cancel: the centroid stays
      const double inverse = 1 / std::sqrt(squares);
      for (std::size_t j = 0; j < width; ++j) centroids[c * width + j] = static_cast<float>(sum[j] * inverse);
    });
  }
  result.centroids = std::move(centroids);
  return result;
}

}  // namespace manyclass
