// Loss and gradient: see the header.
#include "manyclass/exact/gradient.hpp"

#include <vector>

#include "manyclass/exact/full_batch_losses.hpp"
#include "manyclass/exact/full_passes.hpp"

namespace manyclass {

namespace {

template <class Loss, class Data, class Layout>
double evaluate(const Data& x, std::span<const Index> labels, std::span<const double> weights,
                const DoubleModel<Layout>& model, int n_threads, Isa isa, std::span<double> gradient,
                std::span<double> intercept_gradient) {
  std::vector<Memo> memos(labels.size());
  std::vector<double> losses(labels.size());
  for_each_row(x, model, n_threads, isa, [&](std::size_t, std::size_t i, std::span<const double> z) {
    losses[i] = Loss::fold(z, static_cast<std::size_t>(labels[i]), memos[i]);
    if (!weights.empty()) losses[i] *= weights[i];
  });
  const double share = 1.0 / static_cast<double>(labels.size());
  for_each_outer_product(
      x, nonzeros(x), model, n_threads, isa,
      [&](std::size_t i, ClassRange classes, std::span<double> z) {
        const Memo memo = memos[i];
        for (double& score : z) score = Loss::slope(score, memo);
        const Index label = labels[i] - classes.begin;
        if (label >= 0 && label < classes.count) z[static_cast<std::size_t>(label)] = memo.label_slope;
        if (weights.empty()) return;
        for (double& slope : z) slope *= weights[i];
      },
      [&](ClassRange classes, std::span<const double> outer, std::span<const double> sum) {
        model.layout.store(classes, outer, share, gradient);
        if (intercept_gradient.empty()) return;
        for (std::size_t c = 0; c < sum.size(); ++c) {
          intercept_gradient[static_cast<std::size_t>(classes[c])] = share * sum[c];
        }
      });
  double total = 0;
  for (const double loss : losses) total += loss;
  return share * total;
}

}  // namespace

template <class Data, class Layout>
double loss_and_gradient(const std::string& loss, const Data& x, std::span<const Index> labels,
                         std::span<const double> weights, const DoubleModel<Layout>& model, int n_threads, Isa isa,
                         std::span<double> gradient, std::span<double> intercept_gradient) {
  return with_part<double>(FullBatchLosses{}, "loss", loss, [&]<class Loss>() {
    return evaluate<Loss>(x, labels, weights, model, n_threads, isa, gradient, intercept_gradient);
  });
}

template double loss_and_gradient(const std::string&, const CsrView&, std::span<const Index>, std::span<const double>,
                                  const DoubleModel<FeatureMajor<double>>&, int, Isa, std::span<double>,
                                  std::span<double>);
template double loss_and_gradient(const std::string&, const DenseView&, std::span<const Index>, std::span<const double>,
                                  const DoubleModel<ClassMajor<double>>&, int, Isa, std::span<double>,
                                  std::span<double>);

}  // namespace manyclass
