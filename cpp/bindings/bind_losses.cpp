// Losses of rows of scores with labels, what calibrates them, and the factors of scores that make them least.
#include <limits>

#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/class_texts.hpp"
#include "manyclass/exact/label_losses.hpp"
#include "manyclass/exact/score_scales.hpp"

namespace manyclass {

namespace {

// Calls f(rows, results) for N x K scores and the labels of each.
template <class F>
auto each_row(const Matrix<const float>& z, std::span<const Offset> indptr, std::span<const Index> ids, F&& f) {
  Array<double> values(z.rows);
  Array<float> gradients({z.rows, z.cols});
  const RowLosses out{mutable_view(values), mutable_view(gradients)};
  released([&] { f(LabelledRows{z.data, z.width(), {indptr, ids}}, out); });
  return std::pair(values, gradients);
}

auto row_losses(const Matrix<const float>& scores, std::span<const Offset> indptr, std::span<const Index> ids,
                const std::string& loss, double smoothing, Isa isa) {
  return each_row(scores, indptr, ids, [&](const LabelledRows& rows, const RowLosses& out) {
    label_losses(rows, label_loss(loss, smoothing), isa, out);
  });
}

auto margins(const Matrix<const float>& scores, std::span<const Offset> indptr, std::span<const Index> ids,
             double smoothing, double eta, std::span<const double> x_sq, Isa isa) {
  return each_row(scores, indptr, ids, [&](const LabelledRows& rows, const RowLosses& out) {
    implicit_margins(rows, smoothing, eta, x_sq, isa, out);
  });
}

Array<float> projections(const Matrix<const float>& scores, std::span<const Offset> indptr, std::span<const Index> ids,
                         Isa isa) {
  return each_row(scores, indptr, ids,
                  [&](const LabelledRows& rows, const RowLosses& out) { bisimplex_projections(rows, isa, out); })
      .second;
}

// Scores of terms, and what is asked of their factors.
struct ScalesCall {
  std::vector<Matrix<const float>> terms;
  ScaledRows rows;
  std::string loss;
  std::vector<double> start, low, high;
  KnownScales known;
  double least = 0;
};

Fields<ScalesCall> scaled_rows_fields(const char* name) {
  Fields<Excluded> labels("Excluded");
  labels.needs<&Excluded::indptr, &Excluded::ids>();
  Fields<ScaledRows> rows("ScaledRows");
  rows.with<&ScaledRows::labels>(labels).needs<&ScaledRows::n_threads>();
  rows.takes<&ScaledRows::weights, &ScaledRows::sum_of>();
  Fields<ScalesCall> fields(name);
  fields.needs<&ScalesCall::terms, &ScalesCall::loss>();
  return fields.with<&ScalesCall::rows>(rows);
}

ScaledRows rows_of(const ScalesCall& call, std::size_t n_given) {
  ScaledRows rows = call.rows;
  for (const Matrix<const float>& term : call.terms) {
    rows.terms.push_back(term.data);
    rows.n_classes = term.width();
  }
  rows.isa = best_isa();
  check(rows);
  if (n_given != rows.n_scales()) throw std::invalid_argument("there must be a number for each factor");
  return rows;
}

auto least_scales(const ScalesCall& call) {
  const ScaledRows rows = rows_of(call, call.start.size());
  Box box{call.low, call.high};
  if (box.high.empty()) box.high.assign(call.start.size(), std::numeric_limits<double>::infinity());
  if (box.low.size() != call.start.size() || box.high.size() != call.start.size()) {
    throw std::invalid_argument("each factor must have both ends of its interval");
  }
  const BoxMinimum minimum = released([&] { return best_scales(rows, label_loss(call.loss, 0), call.start, box); });
  return std::pair(minimum.at, minimum.value);
}

auto told_scales(const ScalesCall& call) {
  const ScaledRows rows = rows_of(call, call.known.means.size());
  if (call.known.precisions.size() != call.known.means.size()) {
    throw std::invalid_argument("each mean must have a precision");
  }
  const KnownScales scales =
      released([&] { return learnt_scales(rows, label_loss(call.loss, 0), call.known, call.least); });
  return std::pair(array_of(scales.means), array_of(scales.precisions));
}

struct ClassTextsCall {
  Matrix<const float> scores;
  py::object alike;
  ClassTextRows rows;
};

Fields<ClassTextsCall> class_texts_fields() {
  Fields<Excluded> labels("Excluded");
  labels.needs<&Excluded::indptr, &Excluded::ids>();
  Fields<ClassTextRows> rows("ClassTextRows");
  rows.with<&ClassTextRows::labels>(labels);
  rows.needs<&ClassTextRows::counts, &ClassTextRows::has_text, &ClassTextRows::weights>();
  Fields<ClassTextsCall> fields("class_text_scales");
  return fields.needs<&ClassTextsCall::scores, &ClassTextsCall::alike>().with<&ClassTextsCall::rows>(rows);
}

py::dict scales_of_class_texts(const ClassTextsCall& call) {
  ClassTextRows rows = call.rows;
  rows.scores = call.scores.data;
  rows.alike = csr_of(call.alike, call.scores.cols);
  const ClassTextScales scales = released([&] { return class_text_scales(rows); });
  return py::dict("of_classes"_a = array_of(scales.of_classes), "none"_a = scales.none, "loss"_a = scales.loss,
                  "scale"_a = scales.scale, "shrinkage"_a = scales.shrinkage, "of_unseen"_a = scales.of_unseen);
}

Array<bool> rows_unlike_texts(const py::object& x, std::span<const Offset> indptr, std::span<const Index> ids,
                              const py::object& texts, py::ssize_t n_features) {
  const CsrView rows = csr_of(x, n_features), of_classes = csr_of(texts, n_features);
  Array<bool> unlike(rows.n_rows());
  const std::span<bool> out = mutable_view(unlike);
  released([&] { unlike_texts(rows, {indptr, ids}, of_classes, out); });
  return unlike;
}

}  // namespace

void bind_losses(Module& m) {
  m.def("losses", row_losses, "scores"_a, "indptr"_a, "ids"_a, py::kw_only(), "loss"_a, "smoothing"_a = 0.0,
        "isa"_a = "auto");
  m.def("implicit_margins", margins, "scores"_a, "indptr"_a, "ids"_a, py::kw_only(), "smoothing"_a, "eta"_a, "x_sq"_a,
        "isa"_a = "auto");
  m.def("bisimplex_projections", projections, "scores"_a, "indptr"_a, "ids"_a, py::kw_only(), "isa"_a = "auto");
  m.def("loss_at_zero", &loss_at_zero, "loss"_a, "labels_indptr"_a, "n_classes"_a, "weights"_a);
  bind_function(
      m, scaled_rows_fields("best_scales").needs<&ScalesCall::start, &ScalesCall::low>().takes<&ScalesCall::high>(),
      least_scales);
  bind_function(m,
                scaled_rows_fields("learnt_scales")
                    .with<&ScalesCall::known>(
                        Fields<KnownScales>("KnownScales").needs<&KnownScales::means, &KnownScales::precisions>())
                    .needs<&ScalesCall::least>(),
                told_scales);
  bind_function(m, class_texts_fields(), scales_of_class_texts);
  m.def("unlike_texts", rows_unlike_texts, "x"_a, "indptr"_a, "ids"_a, "texts"_a, "n_features"_a);
}

}  // namespace manyclass
