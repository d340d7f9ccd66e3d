// Balanced rows of the softmax: see the header.
#include "manyclass/exact/balanced_softmax.hpp"

#include <cmath>
#include <vector>

#include "manyclass/exact/full_passes.hpp"
#include "manyclass/exact/pair_scores.hpp"
#include "manyclass/math/elementary_double.hpp"

namespace manyclass {

namespace {

// Makes of the scores z their terms below the largest one; returns the sum of these, and leaves that score in `top`.
double exponentiate(std::span<double> z, double& top) {
  top = z[0];
  for (const double score : z) top = score > top ? score : top;
  double sum = 0;
  for (double& score : z) {
    score = vec::exp(score - top);
    sum += score;
  }
  return sum;
}

// removed_i and the entropy of q_i in nats, from the scores of a point, which become q_i.
struct BalancedRow {
  double removed = 0, entropy = 0;
};

BalancedRow balance_row(const Balance& balance, double normalizer, std::span<double> z) {
  BalancedRow row;
  double kept = 0;
  for (std::size_t k = 0; k < z.size(); ++k) {
    z[k] = balance.keep[k] * vec::exp(z[k] - normalizer);
    kept += z[k];
  }
  row.removed = kept < 1 ? 1 - kept : 0.0;
  for (std::size_t k = 0; k < z.size(); ++k) {
    z[k] += row.removed * balance.fill[k];
    if (z[k] > 0) row.entropy -= z[k] * std::log(z[k]);
  }
  return row;
}

// One chunk of classes at a time.
template <class Data, class Layout>
double balanced_residual(const Data& x, std::span<const Index> labels, std::span<const double> weights,
                         const DoubleModel<Layout>& model, const Balance& balance, std::span<const double> removed,
                         int n_threads, Isa isa) {
  // By class, so that the order of the sum does not depend on which chunk is done first.
  std::vector<double> squares(static_cast<std::size_t>(model.n_classes));
  for_each_outer_product<Layout>(
      x, model.n_classes, n_threads, isa,
      [&](const typename Layout::Points& points, ClassRange classes, std::span<double> room) {
        const double* keep = balance.keep.data() + classes.begin;
        const double* fill = balance.fill.data() + classes.begin;
        score(model, points, classes, classes.count, isa, room);
        for (std::size_t p = 0; p < points.size; ++p) {
          const std::size_t i = points.begin + p;
          const std::span<double> z = room.subspan(p * classes.size(), classes.size());
          run_with(isa, [&] {
            for (std::size_t c = 0; c < z.size(); ++c) {
              z[c] = keep[c] * vec::exp(z[c] - balance.normalizers[i]) + removed[i] * fill[c];
            }
          });
          const Index label = labels[i] - classes.begin;
          if (label >= 0 && label < classes.count) z[static_cast<std::size_t>(label)] -= 1;
          if (weights.empty()) continue;
          for (double& slope : z) slope *= weights[i];
        }
        return std::span<const double>(room);
      },
      [&](ClassRange classes, std::span<const double> outer, std::span<const double>) {
        double total = 0;
        if constexpr (requires { model.layout.squared(classes, outer); }) {
          total = model.layout.squared(classes, outer);
        } else {
          for (const double sum : outer) total += sum * sum;
        }
        squares[static_cast<std::size_t>(classes.begin)] = total;
      });
  double total = 0;
  for (const double square : squares) total += square;
  return total;
}

}  // namespace

template <class Data, class Layout>
void softmax_totals(const Data& x, std::span<const Index> labels, std::span<const double> weights,
                    const DoubleModel<Layout>& model, int n_threads, Isa isa, std::span<double> normalizers,
                    std::span<double> losses, std::span<double> totals) {
  const auto width = totals.size();
  const std::size_t n_strips = row_strips(x.n_rows());
  std::vector<double> strips(n_strips * width);
  for_each_row(x, model, n_threads, isa, [&](std::size_t s, std::size_t i, std::span<double> z) {
    const double label_score = z[static_cast<std::size_t>(labels[i])];
    double top = 0, sum = 0;
    run_with(isa, [&] { sum = exponentiate(z, top); });
    normalizers[i] = top + std::log(sum);
    losses[i] = normalizers[i] - label_score;
    const double share = (weights.empty() ? 1.0 : weights[i]) / sum;
    run_with(isa, [&, total = strips.data() + s * width] {
      for (std::size_t k = 0; k < z.size(); ++k) total[k] += share * z[k];
    });
  });
  for (std::size_t k = 0; k < width; ++k) {
    totals[k] = 0;
    for (std::size_t s = 0; s < n_strips; ++s) totals[k] += strips[s * width + k];
  }
}

template <class Data, class Layout>
double balanced_softmax(const Data& x, std::span<const Index> labels, std::span<const double> weights,
                        const DoubleModel<Layout>& model, const Balance& balance, int n_threads, Isa isa,
                        std::span<double> entropies, std::span<double> label_probabilities) {
  const auto k = static_cast<std::size_t>(model.n_classes);
  if (balance.normalizers.size() != labels.size() || balance.keep.size() != k || balance.fill.size() != k) {
    throw std::invalid_argument("normalizers, keep and fill do not have a value for each point or class");
  }
  std::vector<double> removed(labels.size());
  for_each_row(x, model, n_threads, isa, [&](std::size_t, std::size_t i, std::span<double> z) {
    BalancedRow row;
    run_with(isa, [&] { row = balance_row(balance, balance.normalizers[i], z); });
    removed[i] = row.removed;
    entropies[i] = row.entropy;
    label_probabilities[i] = z[static_cast<std::size_t>(labels[i])];
  });
  return balanced_residual(x, labels, weights, model, balance, removed, n_threads, isa);
}

#define MANYCLASS_INSTANTIATE(Data, Layout)                                                                 \
  template void softmax_totals(const Data&, std::span<const Index>, std::span<const double>,                \
                               const DoubleModel<Layout>&, int, Isa, std::span<double>, std::span<double>,  \
                               std::span<double>);                                                          \
  template double balanced_softmax(const Data&, std::span<const Index>, std::span<const double>,            \
                                   const DoubleModel<Layout>&, const Balance&, int, Isa, std::span<double>, \
                                   std::span<double>);

MANYCLASS_INSTANTIATE(CsrView, FeatureMajor<float>)
MANYCLASS_INSTANTIATE(DenseView, ClassMajor<float>)
MANYCLASS_INSTANTIATE(CsrView, PairMajor)
#undef MANYCLASS_INSTANTIATE

}  // namespace manyclass
