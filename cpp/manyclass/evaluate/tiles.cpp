// All scores of all points, a tile at a time: see the header.
#include "manyclass/evaluate/tiles.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/vectors.hpp"

namespace manyclass {

namespace {

// Points that are scored before their scores are looked at: rows that are read for several points say how many.
template <class Rows>
inline constexpr std::size_t points_together = 1;
template <class Rows>
  requires(Rows::together > 1)
inline constexpr std::size_t points_together<Rows> = Rows::together;

// Some points as they are scored together. A vector of 64 bytes of dense points that lies in two cache lines, as all do
// whose memory is aligned to 16 bytes, takes two loads each time: so points of whole lines are copied to where lines
// begin, which costs what a class or two do.
template <class Data, std::size_t Together>
class PointsTogether {
 public:
  std::span<const typename Data::Row> take(const Data& x, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) rows_[i - begin] = x.row(static_cast<Index>(i));
    if constexpr (std::is_same_v<typename Data::Row, DenseRow>) {
      const auto width = static_cast<std::size_t>(x.n_cols);
      const auto is_aligned = [](DenseRow row) {
        return reinterpret_cast<std::uintptr_t>(row.data()) % line_bytes == 0;
      };
      if (width > 0 && width % line_floats == 0 && !is_aligned(rows_[0])) {
        lines_.resize(Together * width / line_floats);
        for (std::size_t i = 0; i < end - begin; ++i) {
          float* const to = lines_.front().numbers + i * width;
          std::memcpy(to, rows_[i].data(), width * sizeof(float));
          rows_[i] = DenseRow(to, width);
        }
      }
    }
    return {rows_, end - begin};
  }

 private:
  struct alignas(line_bytes) Line {
    float numbers[line_floats];
  };

  typename Data::Row rows_[Together];
  std::vector<Line> lines_;
};

// Scores of the points [begin, end), which follow each other in z by the number of classes.
template <class Data, class Rows>
void score_points(const Data& x, const Linear<Rows>& linear, ClassRange classes, Isa isa, std::size_t begin,
                  std::size_t end, PointsTogether<Data, points_together<Rows>>& points, std::span<float> z) {
  const std::size_t n = classes.size();
  if constexpr (points_together<Rows> > 1) {
    linear.rows.scores(points.take(x, begin, end), classes, isa, z.first((end - begin) * n));
    for (std::size_t i = begin; i < end; ++i) linear.finish(classes, z.subspan((i - begin) * n, n));
  } else {
    linear.scores(x.row(static_cast<Index>(begin)), classes, z);
  }
}

// Apart from the scores, so that it is compiled once and not for each storage.
void mix(CountMixer& mixer, SparseRow x, Isa isa, std::span<float> z) {
  run_with(isa, [&] { mixer.mix(x, z); });
}

// Calls fold(i, all classes, scores) for every point i, with counts mixed into the scores.
template <class Data, class Rows>
  requires requires(const Data& x) { sparse_part(x.row(0)); }
void for_each_mixed_row(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, const TileFold& fold) {
  // Of the scores of a bite: rows of classes are read again for each, so that it is as long as 64 MB allow.
  constexpr std::size_t most_floats = std::size_t{1} << 24;
  const auto n = static_cast<std::size_t>(x.n_rows()), width = static_cast<std::size_t>(model.n_classes);
  const std::size_t points = std::clamp(most_floats / width, points_together<Rows>, std::size_t{512});
  const Index chunk = chunk_of(model.linear.rows, x.n_cols, n);
  std::atomic<bool> held{false};
  parallel_for(n_threads, (n + points - 1) / points, [&](std::size_t bite) {
    const std::size_t begin = bite * points, end = std::min(n, begin + points);
    std::vector<float> rows((end - begin) * width), some(points_together<Rows> * static_cast<std::size_t>(chunk));
    PointsTogether<Data, points_together<Rows>> together;
    CountMixer mixer(*model.counts, width);
    run_with(isa, [&](Isa known) {
      for (Index at = 0; at < model.n_classes; at += chunk) {
        const ClassRange classes{at, std::min(chunk, model.n_classes - at)};
        const Linear<Rows> linear{rows_for(model.linear.rows, classes, end - begin), model.linear.intercept,
                                  model.linear.scale};
        for (std::size_t first = begin; first < end; first += points_together<Rows>) {
          const std::size_t last = std::min(end, first + points_together<Rows>);
          poll((last - first) * classes.size() * line_floats);
          score_points(x, linear, classes, known, first, last, together, some);
          for (std::size_t i = first; i < last; ++i) {
            const auto z = std::span(some).subspan((i - first) * classes.size(), classes.size());
            if (hold_finite(z)) held.store(true, std::memory_order_relaxed);
            std::ranges::copy(z, rows.begin() + static_cast<std::ptrdiff_t>((i - begin) * width) + at);
          }
        }
      }
    });
    for (std::size_t i = begin; i < end; ++i) {
      const auto z = std::span(rows).subspan((i - begin) * width, width);
      mix(mixer, sparse_part(x.row(static_cast<Index>(i))), isa, z);
      fold(static_cast<Index>(i), ClassRange{0, model.n_classes}, std::span<const float>(z));
    }
  });
  if (held) ++n_held();
}

}  // namespace

template <class Data, class Rows>
void for_each_tile(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, const TileFold& fold) {
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
      PointsTogether<Data, points_together<Rows>> together;
      const std::size_t end = std::min(n, (bite + 1) * points);
      const Linear<Rows> linear{rows_for(model.linear.rows, classes, end - bite * points), model.linear.intercept,
                                model.linear.scale};
      run_with(isa, [&](Isa known) {
        for (std::size_t first = bite * points; first < end; first += points_together<Rows>) {
          const std::size_t last = std::min(end, first + points_together<Rows>);
          poll((last - first) * classes.size() * line_floats);  // a class with some features
          score_points(x, linear, classes, known, first, last, together, scores);
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

template <class Data, class Rows>
void label_scores(const Data& x, std::span<const Index> labels, const Model<Rows>& model, Isa isa,
                  std::span<float> out) {
  run_with(isa, [&] {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      model.linear.scores(x.row(static_cast<Index>(i)), ClassRange{labels[i], 1}, out.subspan(i, 1));
      if (hold_finite(out.subspan(i, 1))) ++n_held();
    }
  });
}

template void for_each_tile(const CsrView&, const SparseModel&, int, Isa, const TileFold&);
template void for_each_tile(const DenseView&, const DenseModel&, int, Isa, const TileFold&);
template void for_each_tile(const CsrView&, const PairsModel&, int, Isa, const TileFold&);
template void for_each_tile(const PairedView&, const PairedModel&, int, Isa, const TileFold&);
template void for_each_tile(const CsrView&, const CodedModel<CsrView>&, int, Isa, const TileFold&);
template void for_each_tile(const DenseView&, const CodedModel<DenseView>&, int, Isa, const TileFold&);
template void for_each_tile(const PairedView&, const CodedModel<PairedView>&, int, Isa, const TileFold&);
template void label_scores(const CsrView&, std::span<const Index>, const SparseModel&, Isa, std::span<float>);
template void label_scores(const DenseView&, std::span<const Index>, const DenseModel&, Isa, std::span<float>);
template void label_scores(const CsrView&, std::span<const Index>, const PairsModel&, Isa, std::span<float>);
template void label_scores(const PairedView&, std::span<const Index>, const PairedModel&, Isa, std::span<float>);
template void label_scores(const CsrView&, std::span<const Index>, const CodedModel<CsrView>&, Isa, std::span<float>);
template void label_scores(const DenseView&, std::span<const Index>, const CodedModel<DenseView>&, Isa,
                           std::span<float>);
template void label_scores(const PairedView&, std::span<const Index>, const CodedModel<PairedView>&, Isa,
                           std::span<float>);

}  // namespace manyclass
