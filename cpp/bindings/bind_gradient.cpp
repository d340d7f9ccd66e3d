// Exact passes over all points and classes in double precision: loss and gradient, and the parts of a duality bound;
// losses of rows of scores with several labels.
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/label_odds.hpp"
#include "manyclass/exact/balanced_softmax.hpp"
#include "manyclass/exact/duality_gap.hpp"
#include "manyclass/exact/gradient.hpp"
#include "manyclass/exact/label_losses.hpp"

namespace manyclass {

namespace {

// Feature-major weights are (D, K or more), class-major ones (K, D).
template <class Weight>
DoubleModel<FeatureMajor<Weight>> model_of(const CsrView& x, const Matrix<const Weight>& w,
                                           std::span<const double> intercept, Index n_classes) {
  if (w.rows != x.n_cols || w.cols < n_classes) throw std::invalid_argument("the weights do not fit the data");
  return {{w.data, w.width()}, intercept, n_classes};
}

template <class Weight>
DoubleModel<ClassMajor<Weight>> model_of(const DenseView& x, const Matrix<const Weight>& w,
                                         std::span<const double> intercept, Index n_classes) {
  if (w.rows != n_classes || w.cols != x.n_cols) throw std::invalid_argument("the weights do not fit the data");
  return {{w.data, w.width()}, intercept, n_classes};
}

// Calls f(data view, model) without the GIL.
template <class Weight, class F>
auto with_model(const py::object& x, py::ssize_t n_features, const Matrix<const Weight>& w,
                std::span<const double> intercept, Index n_classes, std::span<const Index> labels, F&& f) {
  return std::visit(
      [&](const auto& data) {
        const auto model = model_of(data, w, intercept, n_classes);
        return released([&] {
          check(data, labels, model);
          return f(data, model);
        });
      },
      data_view(x, n_features));
}

// Weights of points: none, or one for each.
void check_weights(std::span<const double> weights, std::span<const Index> labels) {
  if (weights.empty() || weights.size() == labels.size()) return;
  throw std::invalid_argument("sample_weight has " + std::to_string(weights.size()) + " values; it must have " +
                              std::to_string(labels.size()));
}

double gradient(const std::string& loss, const py::object& x, py::ssize_t n_features, const Matrix<const double>& w,
                std::span<const double> intercept, Index n_classes, std::span<const Index> labels,
                std::span<const double> weights, std::span<double> room, std::span<double> w_gradient,
                std::span<double> intercept_gradient, int n_threads, Isa isa) {
  if (w_gradient.size() != w.data.size() || intercept_gradient.size() != intercept.size()) {
    throw std::invalid_argument("the gradients do not have the sizes of the weights and the intercept");
  }
  check_weights(weights, labels);
  return with_model(x, n_features, w, intercept, n_classes, labels, [&](const auto& data, const auto& model) {
    return loss_and_gradient(loss, data, labels, weights, model, n_threads, isa, room, w_gradient, intercept_gradient);
  });
}

auto totals(const py::object& x, py::ssize_t n_features, const Matrix<const float>& w,
            std::span<const double> intercept, Index n_classes, std::span<const Index> labels,
            std::span<const double> weights, int n_threads, Isa isa) {
  check_weights(weights, labels);
  auto normalizers = empty_array<double>(labels.size()), losses = empty_array<double>(labels.size());
  Array<double> sums(n_classes);
  const std::span<double> out = mutable_view(normalizers), out_losses = mutable_view(losses),
                          out_sums = mutable_view(sums);
  with_model(x, n_features, w, intercept, n_classes, labels, [&](const auto& data, const auto& model) {
    softmax_totals(data, labels, weights, model, n_threads, isa, out, out_losses, out_sums);
  });
  return std::tuple(normalizers, losses, sums);
}

auto balanced(const py::object& x, py::ssize_t n_features, const Matrix<const float>& w,
              std::span<const double> intercept, Index n_classes, std::span<const Index> labels,
              std::span<const double> weights, std::span<const double> normalizers, std::span<const double> keep,
              std::span<const double> fill, int n_threads, Isa isa) {
  check_weights(weights, labels);
  auto entropies = empty_array<double>(labels.size()), label_probabilities = empty_array<double>(labels.size());
  const std::span<double> out = mutable_view(entropies), out_labels = mutable_view(label_probabilities);
  const double residual =
      with_model(x, n_features, w, intercept, n_classes, labels, [&](const auto& data, const auto& model) {
        return balanced_softmax(data, labels, weights, model, {normalizers, keep, fill}, n_threads, isa, out,
                                out_labels);
      });
  return std::tuple(entropies, label_probabilities, residual);
}

auto gap(const py::object& x, py::ssize_t n_features, const Matrix<const float>& w, std::span<const double> intercept,
         Index n_classes, std::span<const Index> labels, std::span<const double> weights, double alpha, double squares,
         bool fit_intercept, int n_threads) {
  check_weights(weights, labels);
  const DualityQuestion question{weights, alpha, squares, fit_intercept, n_threads, best_isa()};
  const PrimalDual found =
      with_model(x, n_features, w, intercept, n_classes, labels,
                 [&](const auto& data, const auto& model) { return duality_gap(data, labels, model, question); });
  return std::pair(found.primal, found.dual);
}

// Calls f(rows, results) for N x K scores and the labels of each.
template <class F>
auto each_row(const Matrix<const float>& z, std::span<const Offset> indptr, std::span<const Index> ids, F&& f) {
  Array<double> values(z.rows);
  Array<float> gradients({z.rows, z.cols});
  const RowLosses out{mutable_view(values), mutable_view(gradients)};
  released([&] { f(LabelledRows{z.data, z.width(), {indptr, ids}}, out); });
  return std::pair(values, gradients);
}

auto losses(const Matrix<const float>& scores, std::span<const Offset> indptr, std::span<const Index> ids,
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

// Rows of scores, what is asked of them and where it goes.
struct LabelOddsCall {
  Matrix<const float> scores;
  LabelOdds question;
  LabelOddsSums sums;
};

Fields<LabelOddsCall> label_odds_fields() {
  Fields<Excluded> labels("Excluded");
  labels.needs<&Excluded::indptr, &Excluded::ids>();
  Fields<LabelOdds> question("LabelOdds");
  question.with<&LabelOdds::labels>(labels).needs<&LabelOdds::n_threads>();
  question.takes<&LabelOdds::temperature, &LabelOdds::offset, &LabelOdds::lowest, &LabelOdds::weights>();
  Fields<LabelOddsSums> sums("LabelOddsSums");
  sums.takes<&LabelOddsSums::log_losses, &LabelOddsSums::label_losses, &LabelOddsSums::own, &LabelOddsSums::counts>();
  Fields<LabelOddsCall> fields("label_odds");
  fields.needs<&LabelOddsCall::scores>();
  return fields.with<&LabelOddsCall::question>(question).with<&LabelOddsCall::sums>(sums);
}

void odds_of_labels(const LabelOddsCall& call) {
  LabelOdds question = call.question;
  question.scores = call.scores.data;
  question.n_classes = call.scores.width();
  question.isa = best_isa();
  released([&] { label_odds(question, call.sums); });
}

// One point as the core sees it, for the tests.
py::tuple one_point(const std::string& name, double smoothing, std::span<const float> positives,
                    std::span<const float> negatives, double rest, float rest_score, Isa isa) {
  auto of_positives = empty_array<float>(positives.size()), of_negatives = empty_array<float>(negatives.size());
  const LabelScores z{positives, negatives, rest, rest_score};
  LabelGradient g{mutable_view(of_positives), mutable_view(of_negatives)};
  const auto [value, enough] = label_loss_of(label_loss(name, smoothing), z, isa, g);
  return py::make_tuple(value, of_positives, of_negatives, g.rest, enough);
}

}  // namespace

void bind_gradient(py::module_& m) {
  m.def("loss_and_gradient", &gradient, py::kw_only(), "loss"_a, "x"_a, "n_features"_a, "matrix"_a, "intercept"_a,
        "n_classes"_a, "labels"_a, "sample_weight"_a = Array<double>(0), "room"_a = Array<double>(0), "gradient"_a,
        "intercept_gradient"_a, "n_threads"_a, "isa"_a = "auto");
  m.def("softmax_totals", &totals, py::kw_only(), "x"_a, "n_features"_a, "matrix"_a, "intercept"_a, "n_classes"_a,
        "labels"_a, "sample_weight"_a = Array<double>(0), "n_threads"_a, "isa"_a = "auto");
  m.def("balanced_softmax", &balanced, py::kw_only(), "x"_a, "n_features"_a, "matrix"_a, "intercept"_a, "n_classes"_a,
        "labels"_a, "sample_weight"_a = Array<double>(0), "normalizers"_a, "keep"_a, "fill"_a, "n_threads"_a,
        "isa"_a = "auto");
  m.def("duality_gap", &gap, py::kw_only(), "x"_a, "n_features"_a, "matrix"_a, "intercept"_a, "n_classes"_a, "labels"_a,
        "sample_weight"_a, "alpha"_a, "squares"_a, "fit_intercept"_a, "n_threads"_a);
}

void bind_losses(py::module_& m) {
  m.def("losses", losses, "scores"_a, "indptr"_a, "ids"_a, py::kw_only(), "loss"_a, "smoothing"_a = 0.0,
        "isa"_a = "auto");
  m.def("implicit_margins", margins, "scores"_a, "indptr"_a, "ids"_a, py::kw_only(), "smoothing"_a, "eta"_a, "x_sq"_a,
        "isa"_a = "auto");
  m.def("bisimplex_projections", projections, "scores"_a, "indptr"_a, "ids"_a, py::kw_only(), "isa"_a = "auto");
  bind_function(m, label_odds_fields(), odds_of_labels);
  m.def("_label_loss", one_point, "loss"_a, "smoothing"_a, "positives"_a, "negatives"_a, py::kw_only(), "rest"_a,
        "rest_score"_a, "isa"_a = "auto");
}

}  // namespace manyclass
