// All scores of all points, a tile at a time: never an N x K array in memory. Where counts are mixed in, which needs
// all scores of a point, tiles are whole rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <stdexcept>

#include "manyclass/core/simd.hpp"
#include "manyclass/evaluate/count_mixture.hpp"
#include "manyclass/model/linear.hpp"
#include "manyclass/weights/class_rows.hpp"
#include "manyclass/weights/coded_rows.hpp"
#include "manyclass/weights/feature_rows.hpp"
#include "manyclass/weights/pair_rows.hpp"

namespace manyclass {

template <class Rows>
struct Model {
  Linear<Rows> linear;
  Index n_classes;
  const CountMixture* counts = nullptr;  // that are mixed in
};

using SparseModel = Model<FeatureRows<const float>>;
using DenseModel = Model<ClassRows<const float>>;
using PairsModel = Model<PairRows<const float>>;
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

// Class-major rows are read again for every sixteen points: a chunk of them takes half of the second-level cache (of 1
// MB), which has the points, too, and its scores stay in the nearest one. Of 96,000 classes and 272 numbers on two busy
// cores (AVX-512) 512 points took .59 to .62 ms each with 192 to 480 classes a chunk, .60 to .72 with 960. Of classes
// with many numbers there are as many as make the ends of a chunk free.
template <class Float>
Index chunk_of(const ClassRows<Float>&, Index n_features, std::size_t) {
  constexpr Index cache_floats = 1 << 17, line = static_cast<Index>(line_floats);
  return std::clamp(cache_floats / std::max(n_features, 1) / line * line, 4 * line, 2048);
}

// The first class of a chunk is searched for in every pair: chunks are as long as the second-level cache allows.
template <class Float>
Index chunk_of(const PairRows<Float>&, Index, std::size_t) {
  return 1 << 16;
}

// To find a chunk in the pairs of a point takes as long as to score some hundred classes.
inline Index chunk_of(const PairedRows& rows, Index, std::size_t n_points) {
  return 2 * chunk_of(rows.classes, rows.classes.n_features(), n_points);
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

// What looks at the scores of a point on a chunk of classes, as fold(point, chunk, scores). It is a call of its own, so
// that the loops which make scores are compiled once for all that look at them.
using TileFold = std::function<void(Index, ClassRange, std::span<const float>)>;

// A fold that runs as f, compiled for `isa`.
template <class F>
TileFold fold_with(Isa isa, const F& f) {
  return [isa, f](Index i, ClassRange chunk, std::span<const float> z) { run_with(isa, [&] { f(i, chunk, z); }); };
}

// Calls fold for every point and chunk of classes, chunks of one point in increasing order and from one thread at a
// time.
template <class Data, class Rows>
void for_each_tile(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, const TileFold& fold);

// out[i] = the score of labels[i], made as in a tile, so that equal weights tie; counts are not mixed in.
template <class Data, class Rows>
void label_scores(const Data& x, std::span<const Index> labels, const Model<Rows>& model, Isa isa,
                  std::span<float> out);

// Throws std::invalid_argument where there is not a label in [0, n_classes) for each point.
template <class Data>
void check_labels(const Data& x, std::span<const Index> labels, Index n_classes) {
  if (labels.size() != static_cast<std::size_t>(x.n_rows())) throw std::invalid_argument("X and y differ in length");
  for (const Index label : labels) {
    if (label < 0 || label >= n_classes) throw std::invalid_argument("a label is out of range");
  }
}

}  // namespace manyclass
