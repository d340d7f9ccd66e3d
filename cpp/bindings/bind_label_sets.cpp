// Labels of rows: the best without some, sets of them, what predictions are worth, and ancestors of classes.
#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/best_but.hpp"
#include "manyclass/evaluate/confidence.hpp"
#include "manyclass/evaluate/label_sets.hpp"
#include "manyclass/evaluate/ranking.hpp"

namespace manyclass {

namespace {

auto not_excluded(std::span<const Index> rows, const Matrix<const Index>& found, std::span<const float> scores,
                  std::span<const Offset> indptr, std::span<const Index> excluded, Index k) {
  Array<Index> classes({found.rows, k});
  Array<float> values({found.rows, k});
  best_but({rows, found.data, scores, found.width()}, {indptr, excluded}, static_cast<std::size_t>(k),
           mutable_view(classes), mutable_view(values));
  return std::pair(classes, values);
}

using Offsets = std::span<const Offset>;
using Ids = std::span<const Index>;
using Places = std::span<const std::int64_t>;

Ranked ranked(Offsets indptr, Ids ids, const Matrix<const Index>& predicted) {
  return {{indptr, ids}, predicted.data, predicted.width()};
}

void bind_ranking(Module& m) {
  const auto indptr = "indptr"_a, ids = "ids"_a, predicted = "predicted"_a, places = "places"_a;
  m.def(
      "label_hits",
      [](Offsets starts, Ids labels, const Matrix<const Index>& best) {
        Array<bool> right({best.rows, best.cols});
        const std::span<bool> out = mutable_view(right);
        released([&] { label_hits(ranked(starts, labels, best), out); });
        return right;
      },
      indptr, ids, predicted);
  m.def(
      "twice_predicted", [](const Matrix<const Index>& best) { return twice_predicted(best.data, best.width()); },
      predicted);
  m.def(
      "ranking_means",
      [](const std::string& measure, Offsets starts, Ids labels, const Matrix<const Index>& best, Places ks) {
        return array_of(released([&] { return ranking_means(measure, ranked(starts, labels, best), ks); }));
      },
      "measure"_a, indptr, ids, predicted, places);
  m.def(
      "ranking_shares",
      [](Offsets starts, Ids labels, const Matrix<const Index>& best, Places ks, std::span<const double> gains) {
        return array_of(released([&] { return ranking_shares(ranked(starts, labels, best), ks, gains); }));
      },
      indptr, ids, predicted, places, "gains"_a);
  m.def(
      "labels_covered",
      [](const Matrix<const Index>& best, Places ks, std::size_t n_labels) {
        return released([&] { return labels_covered(best.data, best.width(), ks, n_labels); });
      },
      predicted, places, "n_labels"_a);
  m.def(
      "best_threshold",
      [](Offsets starts, Ids labels, const Matrix<const Index>& best, std::span<const double> values,
         std::span<const double> weights, std::size_t n) {
        return released([&] { return best_threshold({ranked(starts, labels, best), values, weights}, n); });
      },
      indptr, ids, predicted, "values"_a, "weights"_a, "n"_a);
  m.def("sort_rows", [](Offsets starts, std::span<Index> of_rows) { return sort_rows(starts, of_rows); }, indptr, ids);
  m.def(
      "best_of_rows",
      [](Offsets starts, Ids of_rows, std::span<const double> scores, std::size_t k) {
        const std::size_t n = starts.empty() ? 0 : starts.size() - 1;
        Array<Index> best({n, k});
        Array<double> values({n, k});
        const std::span<Index> out = mutable_view(best);
        const std::span<double> out_values = mutable_view(values);
        released([&] { best_of_rows({starts, of_rows}, scores, k, out, out_values); });
        return std::pair(best, values);
      },
      indptr, ids, "scores"_a, "k"_a);
}

}  // namespace

void bind_label_sets(Module& m) {
  bind_ranking(m);
  m.def("best_but", not_excluded, py::kw_only(), "rows"_a, "classes"_a, "values"_a, "indptr"_a, "excluded"_a, "k"_a);
  m.def(
      "label_stands",
      [](const Matrix<const double>& log_p, std::span<const Index> labels) {
        return matrix_of<double>(released([&] { return stands_of(log_p.data, log_p.width(), labels); }), 2);
      },
      "log_p"_a, "labels"_a);
  m.def(
      "conformal_threshold",
      [](const Matrix<const double>& stands, double coverage, double penalty, std::size_t free_rank) {
        return conformal_threshold(stands.data, {penalty, free_rank}, coverage);
      },
      "stands"_a, "coverage"_a, "penalty"_a = 0.0, "free_rank"_a = 1);
  m.def(
      "set_sizes",
      [](const Matrix<const float>& log_p, double penalty, std::size_t free_rank, double threshold, bool all_classes) {
        return array_of(set_sizes(log_p.data, log_p.width(), {penalty, free_rank, threshold}, all_classes));
      },
      "log_p"_a, "penalty"_a, "free_rank"_a, "threshold"_a, "all_classes"_a);
  m.def(
      "labels_above",
      [](const Matrix<const float>& scores, float limit, bool by_softmax, bool with_best) {
        const LabelsAbove labels =
            released([&] { return labels_above(scores.data, scores.width(), limit, by_softmax, with_best); });
        return std::pair(array_of(labels.indptr), array_of(labels.classes));
      },
      "scores"_a, "limit"_a, "by_softmax"_a, "with_best"_a);
  m.def(
      "best_classes",
      [](const Matrix<const double>& log_p, std::size_t k) {
        const BestClasses best = released([&] { return best_classes(log_p.data, log_p.width(), k); });
        return std::pair(matrix_of<Index>(best.classes, k), matrix_of<float>(best.log_p, k));
      },
      "log_p"_a, "k"_a);
  m.def(
      "reliability_bins",
      [](std::span<const double> confidence, std::span<const bool> right, std::size_t n_bins) {
        const std::vector<std::uint8_t> hits(right.begin(), right.end());
        std::vector<double> means, shares, lows, highs;
        for (const ReliabilityBin& bin : reliability_bins(confidence, hits, n_bins)) {
          means.push_back(bin.confidence);
          shares.push_back(bin.share);
          lows.push_back(bin.low);
          highs.push_back(bin.high);
        }
        return std::tuple(array_of(means), array_of(shares), array_of(lows), array_of(highs));
      },
      "confidence"_a, "right"_a, "n_bins"_a);
  m.def(
      "most_confused",
      [](std::span<const Offset> labels, std::span<const Offset> predictions, std::size_t most) {
        return array_of(most_confused(labels, predictions, most));
      },
      "labels"_a, "predictions"_a, "most"_a);
  Class<Hierarchy>(m, "Hierarchy")
      .def(constructor<std::vector<Index>, std::size_t>(), "parents"_a, "n_classes"_a)
      .def("circle", &Hierarchy::circle)
      .def(
          "deepest",
          [](const Hierarchy& self, const Matrix<const double>& p, double least) {
            const auto deepest = released([&] { return self.deepest(p.data, least); });
            return std::pair(array_of(deepest.first), array_of(deepest.second));
          },
          "p"_a, "least"_a);
}

}  // namespace manyclass
