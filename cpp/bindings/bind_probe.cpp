// What stands around a training: looks at exact losses that show a divergence or by how much weights are too large,
// means of iterates, short trials before it, and what one that goes on begins at.
#include <algorithm>
#include <memory>

#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/exact/shrinking.hpp"
#include "manyclass/train/common/class_means.hpp"
#include "manyclass/train/common/class_weights.hpp"
#include "manyclass/train/common/continuing.hpp"
#include "manyclass/train/common/iterate_average.hpp"
#include "manyclass/train/common/probe.hpp"
#include "manyclass/train/common/trials.hpp"

namespace manyclass {

namespace {

using Rows = std::span<const std::int64_t>;

Array<bool> flags_of(const std::vector<bool>& values) {
  auto flags = empty_array<bool>(values.size());
  std::ranges::copy(values, flags.mutable_data());
  return flags;
}

IterateSum sum_of(const Matrix<float>& total, std::span<float> intercept_total, bool of_columns) {
  return {total.data, intercept_total, total.width(), of_columns};
}

void bind_averages(Module& m) {
  m.def("pass_seconds", &pass_seconds, "n_points"_a, "n_stored"_a, "n_met"_a);
  m.def(
      "averaged_passes",
      [](int n_passes, bool averages, bool suffix, std::size_t n_weights, double of_a_pass) {
        const AveragedPasses passes = AveragedPasses::of(n_passes, averages, suffix, n_weights, of_a_pass);
        return std::tuple(passes.last, passes.start, -passes.between);
      },
      "n_passes"_a, "averages"_a, "suffix"_a, "n_weights"_a, "of_a_pass"_a);
  m.def(
      "add_iterate",
      [](const Matrix<float>& total, std::span<float> intercept_total, std::span<const float> weights,
         std::span<const float> intercept, std::span<const float> scale, bool of_columns, int n_threads) {
        released([&] { sum_of(total, intercept_total, of_columns).add(weights, intercept, scale, n_threads); });
      },
      "total"_a, "intercept_total"_a, "weights"_a, "intercept"_a, "scale"_a, "of_columns"_a, "n_threads"_a);
  m.def(
      "write_mean_iterate",
      [](const Matrix<float>& total, std::span<float> intercept_total, std::size_t n, std::span<float> weights,
         std::span<float> intercept) {
        released([&] { sum_of(total, intercept_total, false).write_mean(n, weights, intercept); });
      },
      "total"_a, "intercept_total"_a, "n"_a, "weights"_a, "intercept"_a);
}

void bind_trials(Module& m) {
  Class<StepWalk>(m, "StepWalk")
      .def(constructor<std::vector<int>, int, int>(), "first"_a, "lowest"_a, "highest"_a)
      .def("next", &StepWalk::next)
      .def("tell", &StepWalk::tell, "loss"_a)
      .def("best", &StepWalk::best)
      .def_property_readonly("exponents", &StepWalk::exponents)
      .def_property_readonly("losses", &StepWalk::losses);
  m.def(
      "rows_of_whole_classes",
      [](std::span<const Index> labels, Rows order, std::size_t n_rows, std::size_t fewest) -> py::object {
        const auto rows = rows_of_whole_classes(labels, order, n_rows, fewest);
        return rows ? py::object(array_of(*rows)) : py::none();
      },
      "labels"_a, "order"_a, "n_rows"_a, "fewest"_a);
  m.def(
      "folds_of",
      [](std::span<const Index> labels, Rows order, std::size_t n_folds) {
        return array_of(folds_of(labels, order, n_folds));
      },
      "labels"_a, "order"_a, "n_folds"_a);
  m.def(
      "spare_points",
      [](std::span<const Offset> indptr, std::span<const Index> ids, Rows order, std::size_t n) {
        return flags_of(spare_points({indptr, ids}, order, n));
      },
      "indptr"_a, "ids"_a, "order"_a, "n"_a);
  m.def(
      "balanced_weights",
      [](std::span<const Index> labels, std::size_t n_classes, std::span<const double> weights) {
        return array_of(balanced_weights(labels, n_classes, weights));
      },
      "labels"_a, "n_classes"_a, "weights"_a);
  m.def(
      "class_shares",
      [](std::span<const Index> labels, std::size_t n_classes, std::size_t n_rows, std::span<const double> weights) {
        return array_of(class_shares(labels, n_classes, n_rows, weights));
      },
      "labels"_a, "n_classes"_a, "n_rows"_a, "weights"_a);
  m.def("points_of_batch", &points_of_batch, "labels"_a, "n_classes"_a, "every_class"_a);
}

void bind_continuing(Module& m) {
  const auto factor_and_decay = [](const FallingSteps& steps) { return std::pair(steps.factor, steps.decay); };
  m.def(
      "squares_of_features",
      [](const py::object& x, py::ssize_t n_features, std::span<const double> weights) {
        const AnyData data = data_view(x, n_features);
        return array_of(released([&] { return squares_of_features(data, weights); }));
      },
      "x"_a, "n_features"_a, "weights"_a);
  m.def("alike", [](std::span<const double> squares) { return array_of(alike(squares)); }, "squares"_a);
  m.def("set_new_intercepts", &set_new_intercepts, "position"_a, "before"_a, "now"_a, "intercept"_a);
  m.def(
      "steps_between",
      [=](double first, double last, int n) { return factor_and_decay(steps_between(first, last, n)); }, "first"_a,
      "last"_a, "n_passes"_a);
  m.def(
      "steps_by_sums",
      [=](std::span<const double> before, std::span<const double> now, double per_sum, int n) {
        return factor_and_decay(steps_by_sums(before, now, per_sum, n));
      },
      "before"_a, "now"_a, "per_sum"_a, "n_passes"_a);
  m.def("steps_kept_above", &steps_kept_above, "first"_a, "last"_a, "least"_a, "n_passes"_a);
  Class<CarriedRows>(m, "CarriedRows")
      .def(constructor<std::size_t, std::size_t>(), "n_rows"_a, "n_numbers"_a)
      .def(
          "of",
          [](CarriedRows& self, Rows rows) {
            std::vector<Array<double>> numbers;
            for (const std::vector<double>& own : self.of(rows)) numbers.push_back(array_of(own));
            return numbers;
          },
          "rows"_a)
      .def("put", &CarriedRows::put, "rows"_a, "which"_a, "values"_a);
}

LabelledPoints labelled(const Matrix<const float>& x, std::span<const Index> labels, std::span<const double> weights) {
  return {dense_view(x), labels, weights};
}

void bind_class_means(Module& m) {
  const auto x = "x"_a, labels = "labels"_a, weights = "weights"_a, counts = "counts"_a, means = "means"_a;
  m.def(
      "class_means",
      [](const Matrix<const float>& data, std::span<const Index> y, std::size_t n_classes, std::span<const double> r) {
        auto of_counts = empty_array<double>(n_classes);
        auto centre = empty_array<float>(data.width());
        Array<float> of_means({n_classes, data.width()});
        const ClassMeans out{mutable_view(of_counts), mutable_view(centre), mutable_view(of_means)};
        released([&] { class_means(labelled(data, y, r), out); });
        return std::tuple(of_counts, centre, of_means);
      },
      x, labels, "n_classes"_a, weights);
  m.def(
      "within_classes",
      [](const Matrix<const float>& data, std::span<const Index> y, std::span<const double> r, Rows rows,
         std::span<double> n, std::span<float> centre, std::span<float> of_classes) {
        Array<double> deviations({rows.size(), data.width()});
        const std::span<double> out = mutable_view(deviations);
        released([&] { within_classes(labelled(data, y, r), rows, {n, centre, of_classes}, out); });
        return deviations;
      },
      x, labels, weights, "rows"_a, counts, "centre"_a, means);
  m.def(
      "shrink_means",
      [](std::span<const double> n, std::span<const double> variances, const Matrix<float>& of_classes) -> py::object {
        Array<float> coef({of_classes.rows, of_classes.cols});
        auto offset = empty_array<double>(n.size());
        const std::span<float> out = mutable_view(coef);
        const std::span<double> of_offset = mutable_view(offset);
        const bool any = released([&] { return shrink_means(n, variances, of_classes.data, out, of_offset); });
        return any ? py::object(py::make_tuple(coef, offset)) : py::none();
      },
      counts, "variances"_a, means);
}

}  // namespace

void bind_probe(Module& m) {
  bind_class_means(m);
  bind_averages(m);
  bind_trials(m);
  bind_continuing(m);
  using Of = ProbedTraining;
  Fields<Of> fields("Probe");
  fields.needs<&Of::n_points, &Of::n_classes, &Of::n_passes, &Of::n_drawn, &Of::at_zero>();
  fields.takes<&Of::minimised, &Of::has_integrals>();
  list_fields(m, fields);
  Class<LossProbe>(m, "Probe")
      .def(constructor([fields](const py::kwargs& given) { return std::make_unique<LossProbe>(fields.of(given)); }))
      .def("look", &LossProbe::look, "n_iter"_a, "losses"_a, "weights"_a)
      .def("best", &LossProbe::best)
      .def("last", &LossProbe::last)
      .def("verdict", &LossProbe::verdict)
      .def_property_readonly("n_points", &LossProbe::n_points)
      .def_property_readonly("passes", &LossProbe::passes)
      .def_property_readonly("least_rise", &LossProbe::least_rise)
      .def_property("looks", &LossProbe::looks, &LossProbe::restore)
      .def_readonly_static("many_passes", &LossProbe::many_passes)
      .def_readonly_static("free_pairs", &LossProbe::free_pairs)
      .def_readonly_static("share", &LossProbe::share);
  m.def(
      "shrinking_gains",
      [](std::span<const float> scores, std::span<const float> intercept, std::span<const Index> labels,
         std::span<const double> factors) {
        const ShrinkingGains gains = released([&] { return shrinking_gains(scores, intercept, labels, factors); });
        return std::pair(array_of(gains.sums), array_of(gains.squares));
      },
      "scores"_a, "intercept"_a, "labels"_a, "factors"_a);
  m.def("best_shrinking", &best_shrinking, "sums"_a, "squares"_a, "factors"_a, "n"_a);
  m.def("mean_and_error", &mean_and_error, "values"_a, "weights"_a);
}

}  // namespace manyclass
