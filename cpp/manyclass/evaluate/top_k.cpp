// Top-k: see the header.
#include "manyclass/evaluate/top_k.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

namespace {

// Puts class k with score z into the sorted lists, where it belongs after equal scores: classes come in
// increasing order.
void insert(std::span<Index> classes, std::span<float> scores, Index k, float z) {
  std::size_t at = scores.size() - 1;
  for (; at > 0 && scores[at - 1] < z; --at) {
    scores[at] = scores[at - 1];
    classes[at] = classes[at - 1];
  }
  scores[at] = z;
  classes[at] = k;
}

}  // namespace

template <class Data, class Rows>
void top_k(const Data& x, const Model<Rows>& model, Index k, int n_threads, Isa isa, std::span<Index> classes,
           std::span<float> log_probabilities) {
  if (k < 1 || k > model.n_classes) throw std::invalid_argument("k is out of range");
  const auto width = static_cast<std::size_t>(k);
  const auto n = static_cast<std::size_t>(x.n_rows());
  std::vector<LogSumExp> sums(n);
  std::fill(classes.begin(), classes.end(), 0);
  std::fill(log_probabilities.begin(), log_probabilities.end(), -std::numeric_limits<float>::infinity());
  const auto look = [&](Index point, ClassRange chunk, std::span<const float> z) {
    const auto i = static_cast<std::size_t>(point);
    sums[i].add(z);
    const std::span<Index> best = classes.subspan(i * width, width);
    const std::span<float> scores = log_probabilities.subspan(i * width, width);
    // Lines of 16 are skipped whole when none of their scores gets in, as nearly all are.
    for (std::size_t c = 0; c < z.size(); c += line_floats) {
      const std::size_t end = std::min(c + line_floats, z.size());
      int better = 0;
      for (std::size_t l = c; l < end; ++l) better += z[l] > scores[width - 1] ? 1 : 0;
      if (better == 0) continue;
      for (std::size_t l = c; l < end; ++l) {
        if (z[l] > scores[width - 1]) insert(best, scores, chunk[l], z[l]);
      }
    }
  };
  for_each_tile(x, model, n_threads, isa, fold_with(isa, look));
  for (std::size_t i = 0; i < n; ++i) {
    for (float& z : log_probabilities.subspan(i * width, width)) {
      z = static_cast<float>(sums[i].log_share(static_cast<double>(z)));
    }
  }
}

template <class Data, class Rows>
void top_wrong(const Data& x, std::span<const Index> labels, const Model<Rows>& model, int n_threads, Isa isa,
               std::span<Index> classes) {
  const std::size_t n = labels.size(), wanted = n == 0 ? 0 : classes.size() / n, width = wanted + 1;
  if (n == 0) return;
  if (static_cast<std::size_t>(x.n_rows()) != n || n * wanted != classes.size() || wanted < 1 ||
      wanted >= static_cast<std::size_t>(model.n_classes)) {
    throw std::invalid_argument("the points, their labels and heads do not fit each other or the classes");
  }
  std::vector<Index> best(n * width);
  std::vector<float> log_probabilities(best.size());
  top_k(x, model, static_cast<Index>(width), n_threads, isa, best, log_probabilities);
  for (std::size_t i = 0; i < n; ++i) {
    const auto of_point = std::span<const Index>(best).subspan(i * width, width);
    const auto label = std::ranges::find(of_point.first(wanted), labels[i]);  // else the last one is too many
    const auto row = std::copy(of_point.begin(), label, classes.begin() + static_cast<std::ptrdiff_t>(i * wanted));
    if (label != of_point.first(wanted).end()) std::copy(label + 1, of_point.end(), row);
  }
}

template <class Data, class Rows>
void all_scores(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, std::span<float> out) {
  const auto width = static_cast<std::size_t>(model.n_classes);
  for_each_tile(x, model, n_threads, isa, [&](Index i, ClassRange classes, std::span<const float> z) {
    std::ranges::copy(z, out.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * width +
                                                                   static_cast<std::size_t>(classes.begin)));
  });
}

template void top_k(const CsrView&, const SparseModel&, Index, int, Isa, std::span<Index>, std::span<float>);
template void top_k(const DenseView&, const DenseModel&, Index, int, Isa, std::span<Index>, std::span<float>);
template void top_k(const CsrView&, const PairsModel&, Index, int, Isa, std::span<Index>, std::span<float>);
template void top_k(const PairedView&, const PairedModel&, Index, int, Isa, std::span<Index>, std::span<float>);
template void top_wrong(const CsrView&, std::span<const Index>, const SparseModel&, int, Isa, std::span<Index>);
template void top_wrong(const DenseView&, std::span<const Index>, const DenseModel&, int, Isa, std::span<Index>);
template void top_wrong(const CsrView&, std::span<const Index>, const PairsModel&, int, Isa, std::span<Index>);
template void top_wrong(const PairedView&, std::span<const Index>, const PairedModel&, int, Isa, std::span<Index>);
template void top_wrong(const CsrView&, std::span<const Index>, const CodedModel<CsrView>&, int, Isa, std::span<Index>);
template void top_wrong(const DenseView&, std::span<const Index>, const CodedModel<DenseView>&, int, Isa,
                        std::span<Index>);
template void top_wrong(const PairedView&, std::span<const Index>, const CodedModel<PairedView>&, int, Isa,
                        std::span<Index>);
template void all_scores(const CsrView&, const SparseModel&, int, Isa, std::span<float>);
template void all_scores(const DenseView&, const DenseModel&, int, Isa, std::span<float>);
template void all_scores(const CsrView&, const PairsModel&, int, Isa, std::span<float>);
template void all_scores(const PairedView&, const PairedModel&, int, Isa, std::span<float>);
template void top_k(const CsrView&, const CodedModel<CsrView>&, Index, int, Isa, std::span<Index>, std::span<float>);
template void top_k(const DenseView&, const CodedModel<DenseView>&, Index, int, Isa, std::span<Index>,
                    std::span<float>);
template void top_k(const PairedView&, const CodedModel<PairedView>&, Index, int, Isa, std::span<Index>,
                    std::span<float>);
template void all_scores(const CsrView&, const CodedModel<CsrView>&, int, Isa, std::span<float>);
template void all_scores(const DenseView&, const CodedModel<DenseView>&, int, Isa, std::span<float>);
template void all_scores(const PairedView&, const CodedModel<PairedView>&, int, Isa, std::span<float>);

}  // namespace manyclass
