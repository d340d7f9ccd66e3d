// Exact log-loss and rank: see the header.
#include "manyclass/evaluate/log_loss.hpp"

#include <algorithm>
#include <vector>

#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

template <class Data, class Rows>
void log_losses(const Data& x, std::span<const Index> labels, const Model<Rows>& model, int n_threads, Isa isa,
                std::span<double> losses, std::span<Index> ranks) {
  check_labels(x, labels, model.n_classes);
  std::vector<LogSumExp> sums(labels.size());
  std::vector<float> own_scores(labels.size());
  std::fill(ranks.begin(), ranks.end(), 0);
  const bool whole_rows = model.counts != nullptr;
  if (!whole_rows) label_scores(x, labels, model, isa, own_scores);
  const auto look = [&](Index point, ClassRange classes, std::span<const float> z) {
    const auto i = static_cast<std::size_t>(point);
    sums[i].add(z);
    if (whole_rows) own_scores[i] = z[static_cast<std::size_t>(labels[i])];
    const float z_y = own_scores[i];
    const Index before = std::clamp(labels[i] - classes.begin, 0, classes.count);
    Index rank = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(before); ++k) rank += z[k] >= z_y ? 1 : 0;
    for (std::size_t k = static_cast<std::size_t>(before); k < z.size(); ++k) rank += z[k] > z_y ? 1 : 0;
    ranks[i] += rank;
  };
  for_each_tile(x, model, n_threads, isa, fold_with(isa, look));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    losses[i] = -sums[i].log_share(static_cast<double>(own_scores[i]));
  }
}

template <class Data, class Rows>
void log_normalizers(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, std::span<double> normalizers) {
  std::vector<LogSumExp> sums(normalizers.size());
  const auto look = [&](Index i, ClassRange, std::span<const float> z) { sums[static_cast<std::size_t>(i)].add(z); };
  for_each_tile(x, model, n_threads, isa, fold_with(isa, look));
  std::transform(sums.begin(), sums.end(), normalizers.begin(), [](const LogSumExp& s) { return s.value(); });
}

template void log_losses(const CsrView&, std::span<const Index>, const SparseModel&, int, Isa, std::span<double>,
                         std::span<Index>);
template void log_losses(const DenseView&, std::span<const Index>, const DenseModel&, int, Isa, std::span<double>,
                         std::span<Index>);
template void log_losses(const CsrView&, std::span<const Index>, const PairsModel&, int, Isa, std::span<double>,
                         std::span<Index>);
template void log_losses(const PairedView&, std::span<const Index>, const PairedModel&, int, Isa, std::span<double>,
                         std::span<Index>);
template void log_losses(const CsrView&, std::span<const Index>, const CodedModel<CsrView>&, int, Isa,
                         std::span<double>, std::span<Index>);
template void log_losses(const DenseView&, std::span<const Index>, const CodedModel<DenseView>&, int, Isa,
                         std::span<double>, std::span<Index>);
template void log_losses(const PairedView&, std::span<const Index>, const CodedModel<PairedView>&, int, Isa,
                         std::span<double>, std::span<Index>);
template void log_normalizers(const CsrView&, const SparseModel&, int, Isa, std::span<double>);
template void log_normalizers(const DenseView&, const DenseModel&, int, Isa, std::span<double>);
template void log_normalizers(const CsrView&, const PairsModel&, int, Isa, std::span<double>);
template void log_normalizers(const PairedView&, const PairedModel&, int, Isa, std::span<double>);
template void log_normalizers(const CsrView&, const CodedModel<CsrView>&, int, Isa, std::span<double>);
template void log_normalizers(const DenseView&, const CodedModel<DenseView>&, int, Isa, std::span<double>);
template void log_normalizers(const PairedView&, const CodedModel<PairedView>&, int, Isa, std::span<double>);

}  // namespace manyclass
