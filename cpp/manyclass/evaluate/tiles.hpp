// All scores of all points, a tile at a time: never an N x K array in memory. Where counts are mixed in, which needs all
// scores of a point, tiles are whole rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/evaluate/count_mixture.hpp"
#include "manyclass/model/linear.hpp"
#include "manyclass/weights/class_rows.hpp"
#include "manyclass/weights/coded_rows.hpp"
#include "manyclass/weights/feature_rows.hpp"
#include "manyclass/weights/posting_rows.hpp"

namespace manyclass {

template <class Rows>
struct Model {
  Linear<Rows> linear;
  Index n_classes;
  const CountMixture* counts = nullptr;  // that are mixed in
};

using SparseModel = Model<FeatureRows<const float>>;
using DenseModel = Model<ClassRows<const float>>;
using PostingsModel = Model<PostingRows<const float>>;
using PairedModel = Model<PairedRows>;
template <class Data>
using CodedModel = Model<CodedRows<Data>>;

// Classes scored before the next point is taken up. Of many points, a chunk of the feature-major rows that they share
// stays in the second-level cache (1 MB) or, where features are many, in the third; of few, rows are read as streams,
// the longer the better, as long as a point's scores stay in the first-level cache (16 kB).
template <class Float>
Index chunk_of(const FeatureRows<Float>&, Index n_features, std::size_t n_points) {
  constexpr std::size_t few = 16;
  constexpr Index cache_floats = 1 << 18, line = static_cast<Index>(line_floats);
  return n_points < few ? 4096 : std::clamp(cache_floats / std::max(n_features, 1) / line * line, 256, 1024);
}

// Class-major rows are read again for every point: a chunk of them stays in the second-level cache (1 MB).
template <class Float>
Index chunk_of(const ClassRows<Float>&, Index n_features, std::size_t) {
  constexpr Index cache_floats = 1 << 18;
  return std::clamp(cache_floats / std::max(n_features, 1), static_cast<Index>(line_floats), 4096);
}

// The first class of a chunk is searched for in every posting: chunks are as long as the second-level cache allows.
template <class Float>
Index chunk_of(const PostingRows<Float>&, Index, std::size_t) {
  return 1 << 16;
}

inline Index chunk_of(const PairedRows& rows, Index, std::size_t n_points) {
  return chunk_of(rows.classes, rows.classes.n_features(), n_points);
}

template <class Data>
Index chunk_of(const CodedRows<Data>& rows, Index, std::size_t) {
  return rows.chunk;
}

// The rows by which n points are scored on a chunk of classes.
template <class Rows>
const Rows& rows_for(const Rows& rows, ClassRange, std::size_t) {
  return rows;  // NOLINT(bugprone-return-const-ref-from-parameter): a model's, which outlives the chunk
}

template <class Data>
CodedRows<Data> rows_for(const CodedRows<Data>& rows, ClassRange chunk, std::size_t n) {
  constexpr std::size_t few = 4;  // to widen a row and read it again takes as long as to widen it for two or three
  return rows.of_many && n >= few ? CodedRows<Data>{rows.of_many(chunk), rows.chunk} : rows;
}

// Scores beyond 2^126, of which the difference of two would overflow, count as that, and where +inf met -inf as 0: so
// that what follows is a number. A chunk without any costs one more look at its scores. Returns whether there was one.
inline bool hold_finite(std::span<float> z) {
  float bad[line_floats] = {};
  std::size_t k = 0;
  for (; k + line_floats <= z.size(); k += line_floats) {
    for (std::size_t l = 0; l < line_floats; ++l) bad[l] += 0 * (4 * z[k + l]);  // NaN for NaN and where 4 z overflows
  }
  for (; k < z.size(); ++k) bad[0] += 0 * (4 * z[k]);
  float any = 0;
  for (const float b : bad) any += b;
  if (any == 0) return false;
  constexpr float most = 0x1p126F;
  for (float& score : z) score = std::isnan(score) ? 0 : std::clamp(score, -most, most);
  return true;
}

// How many questions of this thread had scores that were held. Whoever asks of weights that nobody has checked compares
// it before and after: such scores are of huge numbers, or of weights that are not finite.
inline std::size_t& n_held() {
  thread_local std::size_t n = 0;
  return n;
}

// Points that are scored before their scores are looked at: rows that are read for several points say how many.
template <class Rows>
inline constexpr std::size_t points_together = 1;
template <class Rows>
  requires(Rows::together > 1)
inline constexpr std::size_t points_together<Rows> = Rows::together;

// Scores of the points [begin, end), which follow each other in z by the number of classes.
template <class Data, class Rows>
void score_points(const Data& x, const Linear<Rows>& linear, ClassRange classes, Isa isa, std::size_t begin,
                  std::size_t end, std::span<float> z) {
  const std::size_t n = classes.size();
  if constexpr (points_together<Rows> > 1) {
    typename Data::Row rows[points_together<Rows>];
    for (std::size_t i = begin; i < end; ++i) rows[i - begin] = x.row(static_cast<Index>(i));
    linear.rows.scores(std::span<const typename Data::Row>(rows, end - begin), classes, isa,
                       z.first((end - begin) * n));
    for (std::size_t i = begin; i < end; ++i) linear.finish(classes, z.subspan((i - begin) * n, n));
  } else {
    linear.scores(x.row(static_cast<Index>(begin)), classes, z);
  }
}

// Calls fold(i, all classes, scores) for every point i, with counts mixed into the scores.
template <class Data, class Rows, class Fold>
  requires requires(const Data& x) { sparse_part(x.row(0)); }
void for_each_mixed_row(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, const Fold& fold) {
  // Of the scores of a bite: rows of classes are read again for each, so that it is as long as 64 MB allow.
  constexpr std::size_t most_floats = std::size_t{1} << 24;
  const auto n = static_cast<std::size_t>(x.n_rows()), width = static_cast<std::size_t>(model.n_classes);
  const std::size_t points = std::clamp(most_floats / width, points_together<Rows>, std::size_t{512});
  const Index chunk = chunk_of(model.linear.rows, x.n_cols, n);
  std::atomic<bool> held{false};
  parallel_for(n_threads, (n + points - 1) / points, [&](std::size_t bite) {
    const std::size_t begin = bite * points, end = std::min(n, begin + points);
    std::vector<float> rows((end - begin) * width), some(points_together<Rows> * static_cast<std::size_t>(chunk));
    CountMixer mixer(*model.counts, width);
    run_with(isa, [&] {
      for (Index at = 0; at < model.n_classes; at += chunk) {
        const ClassRange classes{at, std::min(chunk, model.n_classes - at)};
        const Linear<Rows> linear{rows_for(model.linear.rows, classes, end - begin), model.linear.intercept,
                                  model.linear.scale};
        for (std::size_t first = begin; first < end; first += points_together<Rows>) {
          const std::size_t last = std::min(end, first + points_together<Rows>);
          poll((last - first) * classes.size() * line_floats);
          score_points(x, linear, classes, isa, first, last, some);
          for (std::size_t i = first; i < last; ++i) {
            const auto z = std::span(some).subspan((i - first) * classes.size(), classes.size());
            if (hold_finite(z)) held.store(true, std::memory_order_relaxed);
            std::ranges::copy(z, rows.begin() + static_cast<std::ptrdiff_t>((i - begin) * width) + at);
          }
        }
      }
      for (std::size_t i = begin; i < end; ++i) {
        const auto z = std::span(rows).subspan((i - begin) * width, width);
        mixer.mix(sparse_part(x.row(static_cast<Index>(i))), z);
        fold(static_cast<Index>(i), ClassRange{0, model.n_classes}, std::span<const float>(z));
      }
    });
  });
  if (held) ++n_held();
}

// Calls fold(i, chunk, scores) for every point i and chunk of classes, chunks of one point in increasing order and from
// one thread at a time.
template <class Data, class Rows, class Fold>
void for_each_tile(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, const Fold& fold) {
  if constexpr (requires { for_each_mixed_row(x, model, n_threads, isa, fold); }) {
    if (model.counts != nullptr) return for_each_mixed_row(x, model, n_threads, isa, fold);
  }
  constexpr std::size_t points = 512;  // a thread's bite: long enough to make handing it out free
  const auto n = static_cast<std::size_t>(x.n_rows());
  const Index chunk = chunk_of(model.linear.rows, x.n_cols, n);
  const std::size_t n_bites = (n + points - 1) / points;
  std::atomic<bool> held{false};
  for (Index begin = 0; begin < model.n_classes; begin += chunk) {
    const ClassRange classes{begin, std::min(chunk, model.n_classes - begin)};
    parallel_for(n_threads, n_bites, [&](std::size_t bite) {
      std::vector<float> scores(points_together<Rows> * classes.size());
      const std::size_t end = std::min(n, (bite + 1) * points);
      const Linear<Rows> linear{rows_for(model.linear.rows, classes, end - bite * points), model.linear.intercept,
                                model.linear.scale};
      run_with(isa, [&] {
        for (std::size_t first = bite * points; first < end; first += points_together<Rows>) {
          const std::size_t last = std::min(end, first + points_together<Rows>);
          poll((last - first) * classes.size() * line_floats);  // a class with some features
          score_points(x, linear, classes, isa, first, last, scores);
          for (std::size_t i = first; i < last; ++i) {
            const auto z = std::span(scores).subspan((i - first) * classes.size(), classes.size());
            if (hold_finite(z)) held.store(true, std::memory_order_relaxed);
            fold(static_cast<Index>(i), classes, std::span<const float>(z));
          }
        }
      });
    });
  }
  if (held) ++n_held();
}

// Throws std::invalid_argument where there is not a label in [0, n_classes) for each point.
template <class Data>
void check_labels(const Data& x, std::span<const Index> labels, Index n_classes) {
  if (labels.size() != static_cast<std::size_t>(x.n_rows())) throw std::invalid_argument("X and y differ in length");
  for (const Index label : labels) {
    if (label < 0 || label >= n_classes) throw std::invalid_argument("a label is out of range");
  }
}

}  // namespace manyclass
