// Loss and gradient: see the header.
#include "manyclass/exact/gradient.hpp"

#include <algorithm>
#include <vector>

#include "manyclass/exact/full_batch_losses.hpp"
#include "manyclass/exact/full_passes.hpp"

namespace manyclass {

namespace {

// A loss of FullBatchLosses, whose type is known only at run time.
struct AnyLoss {
  double (*fold)(std::span<const double> z, std::size_t label, Memo& memo, Isa isa);
  void (*slopes)(std::span<double> z, const Memo& memo, Isa isa);
};

template <class Loss>
constexpr AnyLoss any_loss{[](std::span<const double> z, std::size_t label, Memo& memo, Isa isa) {
                             double value = 0;
                             run_with(isa, [&] { value = Loss::fold(z, label, memo); });
                             return value;
                           },
                           [](std::span<double> z, const Memo& memo, Isa isa) {
                             run_with(isa, [z, memo] {
                               for (double& score : z) score = Loss::slope(score, memo);
                             });
                           }};

}  // namespace

template <class Data, class Layout>
double loss_and_gradient(const std::string& name, const Data& all, std::span<const Index> labels,
                         std::span<const double> weights, const DoubleModel<Layout>& model, int n_threads, Isa isa,
                         std::span<double> room, std::span<double> gradient, std::span<double> intercept_gradient) {
  const AnyLoss loss = with_part<AnyLoss>(FullBatchLosses{}, "loss", name, []<class Loss>() { return any_loss<Loss>; });
  const std::size_t n = labels.size(), fitting = room.size() / static_cast<std::size_t>(model.n_classes);
  const bool kept = fitting > 0;
  const double share = 1.0 / static_cast<double>(n);
  std::vector<Memo> memos(n);
  std::vector<double> losses(n);
  // Turns scores of classes into the loss's derivatives.
  const auto derive = [&](std::size_t i, ClassRange classes, std::span<double> z) {
    loss.slopes(z, memos[i], isa);
    const Index label = labels[i] - classes.begin;
    if (label >= 0 && label < classes.count) z[static_cast<std::size_t>(label)] = memos[i].label_slope;
    if (weights.empty()) return;
    for (double& slope : z) slope *= weights[i];
  };
  const std::size_t step = kept ? std::min(fitting, n) : n;
  for (std::size_t first = 0; first < n; first += step) {
    const Data x = all.rows_from(first, std::min(step, n - first));
    const KeptRows rows(room, static_cast<std::size_t>(x.n_rows()), pass_width(x.n_cols, Layout::narrow));
    for_each_row(x, model, n_threads, isa, [&](std::size_t, std::size_t row, std::span<double> z) {
      const std::size_t i = first + row;
      losses[i] = loss.fold(z, static_cast<std::size_t>(labels[i]), memos[i], isa);
      if (!weights.empty()) losses[i] *= weights[i];
      if (!kept) return;
      derive(i, {0, model.n_classes}, z);
      rows.keep(row, z);
    });
    for_each_outer_product<Layout>(
        x, model.n_classes, n_threads, isa,
        [&](const typename Layout::Points& points, ClassRange classes, std::span<double> z) -> std::span<const double> {
          if (kept) return rows.of(points.begin, points.size, classes);
          score(model, points, classes, classes.count, isa, z);
          for (std::size_t p = 0; p < points.size; ++p) {
            derive(first + points.begin + p, classes, z.subspan(p * classes.size(), classes.size()));
          }
          return z;
        },
        [&](ClassRange classes, std::span<const double> outer, std::span<const double> sum) {
          model.layout.store(classes, outer, share, first > 0, gradient);
          if (intercept_gradient.empty()) return;
          double* to = intercept_gradient.data() + classes.begin;
          for (std::size_t c = 0; c < sum.size(); ++c) to[c] = (first > 0 ? to[c] : 0) + share * sum[c];
        });
  }
  double total = 0;
  for (const double value : losses) total += value;
  return share * total;
}

template double loss_and_gradient(const std::string&, const CsrView&, std::span<const Index>, std::span<const double>,
                                  const DoubleModel<FeatureMajor<double>>&, int, Isa, std::span<double>,
                                  std::span<double>, std::span<double>);
template double loss_and_gradient(const std::string&, const DenseView&, std::span<const Index>, std::span<const double>,
                                  const DoubleModel<ClassMajor<double>>&, int, Isa, std::span<double>,
                                  std::span<double>, std::span<double>);

}  // namespace manyclass
