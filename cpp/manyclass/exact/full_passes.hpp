// Two passes over all points and all classes, without an N x K array: row by row, and one chunk of classes at a time.
//
// How work is cut depends on the sizes alone, and cuts are summed in their order: results are the same for any number
// of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/exact/double_scores.hpp"

namespace manyclass {

inline std::size_t nonzeros(const CsrView& x) { return static_cast<std::size_t>(x.indptr.back() - x.indptr.front()); }
inline std::size_t nonzeros(const DenseView& x) { return x.data.size(); }

// Points in [begin, end), a cut that one thread works through.
struct Strip {
  std::size_t begin, end;
};

inline Strip strip_of(std::size_t n, std::size_t n_strips, std::size_t s) {
  return {n * s / n_strips, n * (s + 1) / n_strips};
}

// Enough strips to keep many threads busy, few enough that K sums for each are a small matter.
inline std::size_t row_strips(Index n_points) {
  constexpr std::size_t points = 64, most = 64;
  return std::clamp((static_cast<std::size_t>(n_points) + points - 1) / points, std::size_t{1}, most);
}

// Classes that share one pass over the points: their weights and gradients for all features fit a cache of 1 MB.
inline Index pass_width(Index n_features, Index narrow) {
  constexpr Index cache_doubles = 1 << 16;
  return std::clamp(cache_doubles / std::max(n_features, 1) / narrow * narrow, narrow, Index{64});
}

// Room for a number for each of n points and all classes, which a pass row by row leaves for one by chunks of classes:
// chunk after chunk, each with its points in order.
class KeptRows {
 public:
  KeptRows(std::span<double> room, std::size_t n_points, Index chunk)
      : room_(room.data()), n_points_(n_points), chunk_(static_cast<std::size_t>(chunk)) {}

  void keep(std::size_t i, std::span<const double> z) const {
    for (std::size_t k = 0; k < z.size(); k += chunk_) {
      const std::size_t width = std::min(chunk_, z.size() - k);
      std::copy_n(z.data() + k, width, room_ + k * n_points_ + i * width);
    }
  }
  // Of the n points from the i-th on and the classes of a chunk, point by point.
  std::span<double> of(std::size_t i, std::size_t n, ClassRange chunk) const {
    const auto k = static_cast<std::size_t>(chunk.begin);
    return {room_ + k * n_points_ + i * chunk.size(), n * chunk.size()};
  }

 private:
  double* room_;
  std::size_t n_points_, chunk_;
};

// Some points, which dense layouts turn to doubles.
template <class Layout>
typename Layout::Points points_of(const typename Layout::Data& x, std::size_t begin, std::size_t size, Isa isa) {
  std::optional<typename Layout::Points> points;
  run_with(isa, [&] { points.emplace(x, begin, size); });
  return *std::move(points);
}

// Scores of the points, `width` of these classes at a time; those of a point follow the ones before in z.
template <class Layout>
void score(const DoubleModel<Layout>& model, const typename Layout::Points& points, ClassRange classes, Index width,
           Isa isa, std::span<double> z) {
  run_with(isa, [&](Isa known) {
    for (Index k = 0; k < classes.count; k += width) {
      const ClassRange part{classes.begin + k, std::min(width, classes.count - k)};
      poll(points.size * part.size() * line_floats);  // a class with some features
      model.scores(points, part, known, z.data() + k, classes.size());
    }
  });
}

// Adds to `outer` and `sum` what some points with the coefficients `a` give.
template <class Layout>
void add(const typename Layout::Points& points, std::span<const double> a, Isa isa, std::span<double> outer,
         std::span<double> sum) {
  run_with(isa, [&](Isa known) {
    Layout::add(points, a, known, outer);
    for (std::size_t i = 0; i < points.size; ++i) {
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += a[i * sum.size() + c];
    }
  });
}

// Calls fold(strip, i, z) with all K scores of every point i; points of one strip in order and from one thread.
template <class Data, class Layout, class Fold>
void for_each_row(const Data& x, const DoubleModel<Layout>& model, int n_threads, Isa isa, const Fold& fold) {
  constexpr std::size_t row_doubles = 1 << 16;  // scores in hand: half a megabyte, or one point's
  const auto width = static_cast<std::size_t>(model.n_classes);
  const auto n = static_cast<std::size_t>(x.n_rows());
  const std::size_t bite = std::clamp(row_doubles / width, std::size_t{1}, std::size_t{64});
  const std::size_t n_strips = row_strips(x.n_rows());
  const Index chunk = pass_width(x.n_cols, Layout::narrow);
  parallel_for(n_threads, n_strips, [&](std::size_t s) {
    std::vector<double> buffer(bite * width);
    const std::span<double> z(buffer);
    const Strip strip = strip_of(n, n_strips, s);
    for (std::size_t begin = strip.begin; begin < strip.end; begin += bite) {
      const std::size_t count = std::min(bite, strip.end - begin);
      score(model, points_of<Layout>(x, begin, count, isa), {0, model.n_classes}, chunk, isa, z);
      for (std::size_t i = 0; i < count; ++i) fold(s, begin + i, z.subspan(i * width, width));
    }
  });
}

// For every chunk of classes, G = sum_i c_i x_i' and g = sum_i c_i, where coefficients(points, classes, room) gives the
// c_i of Layout::Points that follow each other, in `room` or elsewhere. take(classes, G, g) receives them, G laid out
// as Layout::add does.
//
// Few classes make few chunks, so points are then cut too, and the parts of G added. A strip must hold several
// non-zeros for each number it adds, or adding would cost more than it saves.
template <class Layout, class Data, class Coefficients, class Take>
void for_each_outer_product(const Data& x, Index n_classes, int n_threads, Isa isa, const Coefficients& coefficients,
                            const Take& take) {
  constexpr std::size_t wanted = 16, nonzeros_a_sum = 4;
  const auto n = static_cast<std::size_t>(x.n_rows());
  const auto n_features = static_cast<std::size_t>(x.n_cols);
  const Index chunk = pass_width(x.n_cols, Layout::narrow);
  const auto n_chunks = static_cast<std::size_t>((n_classes + chunk - 1) / chunk);
  const std::size_t most = nonzeros(x) / (nonzeros_a_sum * std::max(n_features, std::size_t{1}));
  const std::size_t n_strips = std::max(std::size_t{1}, std::min(wanted / n_chunks, most));

  struct Part {
    std::vector<double> outer, sum;
  };
  std::vector<Part> parts(n_chunks * n_strips);
  std::vector<std::atomic<std::size_t>> missing(n_chunks);
  for (auto& m : missing) m = n_strips;
  parallel_for(n_threads, parts.size(), [&](std::size_t item) {
    const std::size_t at = item / n_strips;
    const Index k = static_cast<Index>(at) * chunk;
    const ClassRange classes{k, std::min(chunk, n_classes - k)};
    Part& part = parts[item];
    part.outer.assign(n_features * classes.size(), 0.0);
    part.sum.assign(classes.size(), 0.0);
    const std::size_t width = classes.size();
    std::vector<double> room(Layout::together * width);
    const Strip strip = strip_of(n, n_strips, item % n_strips);
    for (std::size_t begin = strip.begin; begin < strip.end; begin += Layout::together) {
      const auto points = points_of<Layout>(x, begin, std::min(Layout::together, strip.end - begin), isa);
      poll(points.size * width * line_floats);
      add<Layout>(points, coefficients(points, classes, std::span(room).first(points.size * width)), isa, part.outer,
                  part.sum);
    }
    if (missing[at].fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    Part& first = parts[at * n_strips];
    for (std::size_t s = 1; s < n_strips; ++s) {
      Part& other = parts[at * n_strips + s];
      for (std::size_t j = 0; j < first.outer.size(); ++j) first.outer[j] += other.outer[j];
      for (std::size_t c = 0; c < first.sum.size(); ++c) first.sum[c] += other.sum[c];
      other = {};
    }
    take(classes, std::span<const double>(first.outer), std::span<const double>(first.sum));
    first = {};
  });
}

}  // namespace manyclass
