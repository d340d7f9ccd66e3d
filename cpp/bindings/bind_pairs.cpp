// Weights on a support: the support, its union with another one, counts of its pairs, and training.
#include <memory>

#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/train/common/sequence_rows.hpp"
#include "manyclass/train/pairs/pairs.hpp"
#include "manyclass/train/pairs/support.hpp"
#include "manyclass/weights/pair_lists.hpp"

namespace manyclass {

namespace {

py::tuple support(const py::object& x, py::ssize_t n_features, std::span<const Offset> labels_indptr,
                  std::span<const Index> labels, Index n_classes, Index min_count, Index few_classes) {
  const CsrView csr = csr_of(x, n_features);
  const OwnedSupport pairs =
      released([&] { return support_of(csr, {labels_indptr, labels}, n_classes, min_count, few_classes); });
  return py::make_tuple(array_of(pairs.indptr), array_of(pairs.classes));
}

std::vector<std::int64_t> met(const py::object& x, py::ssize_t n_features, std::span<const Offset> labels_indptr,
                              std::span<const Index> labels, Index n_classes, std::span<const std::int64_t> times,
                              const std::vector<Index>& least, Index few_classes) {
  const CsrView csr = csr_of(x, n_features);
  return released([&] { return weights_met(csr, {labels_indptr, labels}, n_classes, times, least, few_classes); });
}

PairUnion pair_union(std::span<const Offset> indptr, std::span<const Index> classes, std::span<const Index> position,
                     std::span<const Offset> other_indptr, std::span<const Index> other_classes, Index n_classes) {
  return released([&] {
    return union_of({indptr, classes}, position, {other_indptr, other_classes}, static_cast<std::size_t>(n_classes));
  });
}

Array<float> spread(const PairUnion& both, std::span<const float> numbers) {
  auto out = empty_array<float>(both.classes.size());
  both.spread(numbers, mutable_view(out));
  return out;
}

Array<float> weighted_sum(const PairUnion& both, float a, std::span<const float> x, float b, std::span<const float> y) {
  auto out = empty_array<float>(both.classes.size());
  both.sum(a, x, b, y, mutable_view(out));
  return out;
}

void count(const py::object& x, py::ssize_t n_features, std::span<const Offset> labels_indptr,
           std::span<const Index> labels, std::span<const double> row_weights, std::span<const Offset> indptr,
           std::span<const Index> classes, Index n_classes, std::span<float> counts, std::span<float> totals) {
  const CsrView csr = csr_of(x, n_features);
  released([&] {
    count_pairs(csr, {labels_indptr, labels}, row_weights, {indptr, classes}, static_cast<std::size_t>(n_classes),
                counts, totals);
  });
}

struct PairsCall {
  py::object x;
  py::ssize_t n_features = 0;
  std::span<const Offset> labels_indptr;
  std::span<const Index> labels;
  std::span<const Offset> indptr;
  std::span<const Index> classes;
  std::span<float> values, squares, intercept, intercept_squares;
  float offset = 0, intercept_offset = 0, rounding = 0;
  double smoothing = 0;  // of a margin
  std::span<const double> sample_weight;
  std::string loss;
  Settings settings;
};

Fields<PairsCall> trainer_fields() {
  using Call = PairsCall;
  Fields<Settings> settings("Settings");
  settings.needs<&Settings::seed, &Settings::n_threads, &Settings::batch, &Settings::hogwild, &Settings::shuffle,
                 &Settings::isa>();
  settings.takes<&Settings::first_point, &Settings::ridge>();
  Fields<Call> fields("pairs_trainer");
  fields.needs<&Call::x, &Call::n_features, &Call::labels_indptr, &Call::labels, &Call::indptr, &Call::classes,
               &Call::values, &Call::squares, &Call::intercept, &Call::intercept_squares, &Call::offset,
               &Call::intercept_offset, &Call::loss, &Call::rounding>();
  fields.takes<&Call::sample_weight, &Call::smoothing>();
  return fields.with<&Call::settings>(settings);
}

std::unique_ptr<Trainer> trainer(const PairsCall& call) {
  const PairsProblem problem{csr_of(call.x, call.n_features),
                             {call.labels_indptr, call.labels},
                             {call.indptr, call.classes},
                             call.values,
                             call.intercept,
                             {call.squares, call.offset},
                             {call.intercept_squares, call.intercept_offset},
                             call.sample_weight,
                             label_loss(call.loss, call.smoothing),
                             call.rounding};
  return pairs_trainer(problem, call.settings);
}

}  // namespace

void bind_pairs(Module& m) {
  m.def("support", &support, "x"_a, "n_features"_a, "labels_indptr"_a, "labels"_a, "n_classes"_a, "min_count"_a,
        "few_classes"_a = 0, "Pairs of a feature and a label that have enough rows: indptr and classes, by feature.");
  m.def("weights_met", &met, "x"_a, "n_features"_a, "labels_indptr"_a, "labels"_a, "n_classes"_a, "times"_a, "least"_a,
        "few_classes"_a = 0);
  Class<PairUnion>(m, "PairUnion")
      .def(constructor(&pair_union), py::kw_only(), "indptr"_a, "classes"_a, "position"_a, "other_indptr"_a,
           "other_classes"_a, "n_classes"_a)
      .def_property_readonly("indptr", [](const PairUnion& both) { return array_of(both.indptr); })
      .def_property_readonly("classes", [](const PairUnion& both) { return array_of(both.classes); })
      .def("spread", &spread, "numbers"_a)
      .def("sum", &weighted_sum, "a"_a, "x"_a, "b"_a, "y"_a);
  m.def("count_pairs", &count, py::kw_only(), "x"_a, "n_features"_a, "labels_indptr"_a, "labels"_a, "row_weights"_a,
        "indptr"_a, "classes"_a, "n_classes"_a, "counts"_a, "totals"_a);
  m.def(
      "sequence_rows",
      [](std::span<const Offset> indptr, std::span<const Index> features, std::span<const Index> next,
         std::span<const Index> rows, std::size_t most) {
        const SequenceRows shares = released([&] { return sequence_rows({indptr, features, next}, rows, most); });
        return std::tuple(shares.rows_a_sequence, shares.share_following, array_of(shares.together));
      },
      py::kw_only(), "indptr"_a, "features"_a, "next"_a, "rows"_a, "most"_a);
  const Fields<PairsCall> fields = trainer_fields();
  list_fields(m, fields);
  m.def("pairs_trainer", [fields](const py::kwargs& given) { return trainer(fields.of(given)); }, KeepAll());
}

}  // namespace manyclass
