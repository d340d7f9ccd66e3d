// A linear model under any noise: see the header.
#include "manyclass/utility/model.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/utility/row_of.hpp"

namespace manyclass {

namespace {

// Calls fold(row integrator, i, scores) with all scores of point i. Points are scored in blocks, chunk of classes after
// chunk (tiles.hpp), a block's scores taking 16 MB at most.
template <class Data, class Rows, class Fold>
void for_each_row(const NoiseKind& kind, const Data& x, const Model<Rows>& model, int n_threads, Isa isa,
                  const Fold& fold) {
  constexpr std::size_t most_scores = std::size_t{1} << 22;
  const auto width = static_cast<std::size_t>(model.n_classes);
  const auto n = static_cast<std::size_t>(x.n_rows());
  const std::size_t per_thread = n / (4 * static_cast<std::size_t>(std::max(n_threads, 1))) + 1;
  const std::size_t points = std::clamp<std::size_t>(most_scores / width, 1, std::min<std::size_t>(per_thread, 512));
  const Index chunk = chunk_of(model.linear.rows, x.n_cols, points);
  std::visit(
      [&]<class Noise>(Noise) {
        parallel_for(n_threads, (n + points - 1) / points, [&](std::size_t block) {
          const std::size_t first = block * points;
          const std::size_t last = std::min(n, first + points);
          std::vector<float> scores((last - first) * width);
          const auto row_of = [&](std::size_t i) { return std::span(scores).subspan((i - first) * width, width); };
          run_with(isa, [&] {
            for (Index begin = 0; begin < model.n_classes; begin += chunk) {
              const ClassRange classes{begin, std::min(chunk, model.n_classes - begin)};
              for (std::size_t i = first; i < last; ++i) {
                model.linear.scores(x.row(static_cast<Index>(i)), classes,
                                    row_of(i).subspan(static_cast<std::size_t>(begin), classes.size()));
              }
            }
          });
          UtilityRowOf<Noise> row(isa);
          for (std::size_t i = first; i < last; ++i) fold(row, i, std::span<const float>(row_of(i)));
        });
      },
      kind);
}

}  // namespace

template <class Data, class Rows>
void utility_log_losses(const NoiseKind& noise, const Data& x, std::span<const Index> labels, const Model<Rows>& model,
                        int n_threads, Isa isa, std::span<double> losses, std::span<Index> ranks) {
  check_labels(x, labels, model.n_classes);
  for_each_row(noise, x, model, n_threads, isa, [&](auto& row, std::size_t i, std::span<const float> z) {
    const auto y = static_cast<std::size_t>(labels[i]);
    Index rank = 0;
    for (std::size_t k = 0; k < z.size(); ++k) rank += z[k] > z[y] || (k < y && z[k] == z[y]) ? 1 : 0;
    ranks[i] = rank;
    row.set(z, true);
    row.some(labels.subspan(i, 1), losses.subspan(i, 1));
    losses[i] = -losses[i];
  });
}

template <class Data, class Rows>
void utility_top_k(const NoiseKind& noise, const Data& x, const Model<Rows>& model, Index k, int n_threads, Isa isa,
                   std::span<Index> classes, std::span<float> log_probabilities) {
  const auto width = static_cast<std::size_t>(k);
  for_each_row(noise, x, model, n_threads, isa, [&](auto& row, std::size_t i, std::span<const float> z) {
    std::vector<Index> order(z.size());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [z](Index a, Index b) {
      const float z_a = z[static_cast<std::size_t>(a)];
      const float z_b = z[static_cast<std::size_t>(b)];
      return z_a > z_b || (z_a == z_b && a < b);
    });
    const std::span<const Index> best = std::span(order).first(width);
    std::vector<double> log_p(width);
    row.set(z, true);
    row.some(best, log_p);
    std::ranges::copy(best, classes.begin() + static_cast<std::ptrdiff_t>(i * width));
    std::ranges::transform(log_p, log_probabilities.begin() + static_cast<std::ptrdiff_t>(i * width),
                           [](double v) { return static_cast<float>(v); });
  });
}

template <class Data, class Rows>
void utility_all(const NoiseKind& noise, const Data& x, const Model<Rows>& model, bool log, int n_threads, Isa isa,
                 std::span<double> out) {
  for_each_row(noise, x, model, n_threads, isa, [&](auto& row, std::size_t i, std::span<const float> z) {
    row.set(z, log);
    row.all(out.subspan(i * z.size(), z.size()));
  });
}

template void utility_log_losses(const NoiseKind&, const CsrView&, std::span<const Index>, const SparseModel&, int, Isa,
                                 std::span<double>, std::span<Index>);
template void utility_log_losses(const NoiseKind&, const DenseView&, std::span<const Index>, const DenseModel&, int,
                                 Isa, std::span<double>, std::span<Index>);
template void utility_top_k(const NoiseKind&, const CsrView&, const SparseModel&, Index, int, Isa, std::span<Index>,
                            std::span<float>);
template void utility_top_k(const NoiseKind&, const DenseView&, const DenseModel&, Index, int, Isa, std::span<Index>,
                            std::span<float>);
template void utility_all(const NoiseKind&, const CsrView&, const SparseModel&, bool, int, Isa, std::span<double>);
template void utility_all(const NoiseKind&, const DenseView&, const DenseModel&, bool, int, Isa, std::span<double>);

}  // namespace manyclass
