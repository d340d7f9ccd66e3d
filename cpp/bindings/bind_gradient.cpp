// Exact passes over all points and classes: loss and gradient in double precision, the parts of a duality bound, and
// steps on a block of classes.
#include <memory>

#include "bindings/labelled.hpp"
#include "bindings/module.hpp"
#include "manyclass/exact/block_steps.hpp"
#include "manyclass/exact/block_sums.hpp"
#include "manyclass/exact/duality_gap.hpp"
#include "manyclass/exact/full_batch.hpp"
#include "manyclass/exact/gradient.hpp"
#include "manyclass/exact/pair_scores.hpp"

namespace manyclass {

namespace {

struct GradientCall {
  Labelled<double> of;
  std::string loss;
  std::span<double> room, gradient, intercept_gradient;
};

Fields<GradientCall> gradient_fields() {
  Fields<GradientCall> fields("loss_and_gradient");
  fields.needs<&GradientCall::loss, &GradientCall::gradient, &GradientCall::intercept_gradient>();
  return fields.takes<&GradientCall::room>().with<&GradientCall::of>(labelled_fields<double>());
}

double gradient(const GradientCall& call) {
  const Labelled<double>& of = call.of;
  if (call.gradient.size() != of.matrix.data.size() || call.intercept_gradient.size() != of.intercept.size()) {
    throw std::invalid_argument("the gradients do not have the sizes of the weights and the intercept");
  }
  return with_model(of, [&](const auto& data, const auto& model) {
    return loss_and_gradient(call.loss, data, of.labels, of.sample_weight, model, of.n_threads, of.isa, call.room,
                             call.gradient, call.intercept_gradient);
  });
}

struct FullBatchCall {
  py::object x;
  py::ssize_t n_features = 0;
  FullBatchObjective of;
};

Fields<FullBatchCall> full_batch_fields() {
  using Of = FullBatchObjective;
  Fields<Of> of("FullBatchObjective");
  of.needs<&Of::labels, &Of::n_classes, &Of::loss, &Of::alpha, &Of::fit_intercept, &Of::n_threads>();
  of.takes<&Of::sample_weight, &Of::isa, &Of::room, &Of::nonzeros_a_feature>();
  Fields<FullBatchCall> fields("FullBatch");
  return fields.needs<&FullBatchCall::x, &FullBatchCall::n_features>().with<&FullBatchCall::of>(of);
}

void bind_full_batch(Module& m) {
  const Fields<FullBatchCall> fields = full_batch_fields();
  list_fields(m, fields);
  Class<FullBatch>(m, "FullBatch")
      .def(constructor([fields](const py::kwargs& given) {
             FullBatchCall call = fields.of(given);
             call.of.x = data_view(call.x, call.n_features);
             return std::make_unique<FullBatch>(std::move(call.of));
           }),
           KeepAll())
      .def(
          "iterate",
          [](FullBatch& self, double tolerance) { return released([&] { return self.iterate(tolerance); }); },
          "tolerance"_a)
      .def(
          "read",
          [](FullBatch& self, const Matrix<const float>& matrix, std::span<const float> intercept) {
            self.read(matrix.data, matrix.width(), intercept);
          },
          "matrix"_a, "intercept"_a)
      .def(
          "write",
          [](const FullBatch& self, const Matrix<float>& matrix, std::span<float> intercept) {
            self.write(matrix.data, matrix.width(), intercept);
          },
          "matrix"_a, "intercept"_a)
      .def_property_readonly("theta",
                             [](const py::object& self) {
                               const std::span<double> theta = self.cast<FullBatch&>().theta();
                               return Array<double>(static_cast<py::ssize_t>(theta.size()), theta.data(), self);
                             })
      .def_property_readonly("value", &FullBatch::value)
      .def_property_readonly("largest_slope", &FullBatch::largest_slope)
      .def_property_readonly("n_kept", &FullBatch::n_kept);
}

struct GapCall {
  Labelled<float> of;
  DualityQuestion question;
};

Fields<GapCall> gap_fields() {
  Fields<DualityQuestion> question("DualityQuestion");
  question.needs<&DualityQuestion::alpha, &DualityQuestion::squares, &DualityQuestion::fit_intercept>();
  return Fields<GapCall>("duality_gap").with<&GapCall::of>(labelled_fields<float>()).with<&GapCall::question>(question);
}

auto gap(const GapCall& call) {
  const Labelled<float>& of = call.of;
  DualityQuestion question = call.question;
  question.weights = of.sample_weight;
  question.n_threads = of.n_threads;
  question.isa = of.isa;
  const PrimalDual gap_ends = with_model(
      of, [&](const auto& data, const auto& model) { return duality_gap(data, of.labels, model, question); });
  return std::pair(gap_ends.primal, gap_ends.dual);
}

struct PairGapCall {
  py::object x;
  py::ssize_t n_features = 0;
  std::span<const Offset> indptr;
  std::span<const Index> classes;
  std::span<const float> values;
  std::span<const double> intercept;
  std::span<const Index> labels;
  DualityQuestion question;
  Isa isa = best_isa();
};

Fields<PairGapCall> pair_gap_fields() {
  using Call = PairGapCall;
  Fields<DualityQuestion> question("DualityQuestion");
  question.needs<&DualityQuestion::alpha, &DualityQuestion::squares, &DualityQuestion::fit_intercept,
                 &DualityQuestion::n_threads>();
  question.member_as<&DualityQuestion::weights>("sample_weight", false);
  return Fields<Call>("duality_gap_on_pairs")
      .needs<&Call::x, &Call::n_features, &Call::indptr, &Call::classes, &Call::values, &Call::intercept,
             &Call::labels>()
      .takes<&Call::isa>()
      .with<&Call::question>(question);
}

auto pair_gap(const PairGapCall& call) {
  const CsrView x = csr_of(call.x, call.n_features);
  const Support support{call.indptr, call.classes};
  const auto n_classes = static_cast<Index>(call.intercept.size());
  const DoubleModel<PairMajor> model{{support, call.values, n_classes}, call.intercept, n_classes};
  const PrimalDual gap_ends = released([&] {
    check(x, call.labels, model);
    check(support, static_cast<std::size_t>(call.n_features), call.intercept.size(), "classes of pairs");
    if (call.values.size() != call.classes.size() ||
        (!call.question.weights.empty() && call.question.weights.size() != call.labels.size())) {
      throw std::invalid_argument("the weights, the pairs and the points do not fit each other");
    }
    DualityQuestion question = call.question;
    question.isa = call.isa;
    return duality_gap(x, call.labels, model, question);
  });
  return std::pair(gap_ends.primal, gap_ends.dual);
}

// Points and a block of classes, whose weights are laid out as in Labelled.
struct BlockCall {
  py::object x;
  Matrix<float> matrix;
  Matrix<double> log_sums;
  BlockSteps steps;
  ClassSample sample;
};

Fields<BlockCall> block_fields(const char* name) {
  Fields<BlockOfClasses> of("BlockOfClasses");
  of.needs<&BlockOfClasses::intercept, &BlockOfClasses::labels>().takes<&BlockOfClasses::isa>();
  Fields<BlockSteps> steps("BlockSteps");
  steps.with<&BlockSteps::of>(of);
  return Fields<BlockCall>(name).needs<&BlockCall::x, &BlockCall::matrix>().with<&BlockCall::steps>(steps);
}

Fields<BlockCall> block_steps_fields() {
  Fields<BlockSteps> steps("BlockSteps");
  steps.takes<&BlockSteps::sample_weight>();
  steps.needs<&BlockSteps::number, &BlockSteps::order, &BlockSteps::together, &BlockSteps::eta, &BlockSteps::alpha,
              &BlockSteps::fit_intercept>();
  return block_fields("exact_block_steps").needs<&BlockCall::log_sums>().with<&BlockCall::steps>(steps);
}

Fields<BlockCall> log_sums_fields() {
  Fields<ClassSample> sample("ClassSample");
  sample.needs<&ClassSample::scale, &ClassSample::classes, &ClassSample::log_weights>();
  return block_fields("estimated_log_sums").with<&BlockCall::sample>(sample);
}

auto block_steps(const BlockCall& call) {
  BlockSteps steps = call.steps;
  steps.of.matrix = call.matrix.data;
  steps.log_sums = call.log_sums.data;
  steps.n_blocks = call.log_sums.width();
  const AnyData x = data_view(call.x, call.matrix.rows);
  const StepsTaken taken =
      released([&] { return std::visit([&](const auto& data) { return exact_block_steps(data, steps); }, x); });
  return std::pair(taken.loss, taken.finite);
}

Array<double> block_log_sums(const BlockCall& call) {
  BlockOfClasses of = call.steps.of;
  of.matrix = call.matrix.data;
  const AnyData x = data_view(call.x, call.matrix.rows);
  Array<double> sums(n_rows(x));
  const std::span<double> out = mutable_view(sums);
  released([&] { std::visit([&](const auto& data) { estimated_log_sums(data, of, call.sample, out); }, x); });
  return sums;
}

auto normalizers_of_blocks(const Matrix<double>& log_sums, std::size_t number) {
  auto v = empty_array<double>(static_cast<std::size_t>(log_sums.rows)), elsewhere = empty_array<double>(v.size());
  block_normalizers({log_sums.data, log_sums.width()}, number, mutable_view(v), mutable_view(elsewhere));
  return std::pair(v, elsewhere);
}

auto best_of_blocks(const Matrix<const Index>& classes, const Matrix<const double>& scores,
                    const Matrix<const double>& log_sums, const Matrix<const double>& of_labels, std::size_t k) {
  const auto n = static_cast<std::size_t>(classes.rows);
  Array<Index> best({n, k});
  Array<double> log_p({n, k}), losses(n);
  const BestOfBlocks of_blocks{classes.data, scores.data, classes.width(), log_sums.data, of_labels.data};
  const std::span<Index> out = mutable_view(best);
  const std::span<double> out_log_p = mutable_view(log_p), out_losses = mutable_view(losses);
  released([&] { best_over_blocks(of_blocks, k, out, out_log_p, out_losses); });
  return std::tuple(best, log_p, losses);
}

void bind_block_sums(Module& m) {
  const auto log_sums = "log_sums"_a, number = "number"_a;
  m.def("block_normalizers", normalizers_of_blocks, log_sums, number);
  m.def(
      "take_normalizers",
      [](std::span<const double> before, std::span<const double> v, std::span<const double> elsewhere, std::size_t of,
         const Matrix<double>& sums) { take_normalizers(before, v, elsewhere, of, {sums.data, sums.width()}); },
      "before"_a, "v"_a, "elsewhere"_a, number, log_sums);
  m.def("best_over_blocks", best_of_blocks, "classes"_a, "scores"_a, log_sums, "of_labels"_a, "k"_a);
}

}  // namespace

void bind_gradient(Module& m) {
  bind_block_sums(m);
  bind_function(m, gradient_fields(), gradient);
  bind_full_batch(m);
  bind_function(m, gap_fields(), gap);
  bind_function(m, pair_gap_fields(), pair_gap);
  bind_function(m, block_steps_fields(), block_steps);
  bind_function(m, log_sums_fields(), block_log_sums);
}

}  // namespace manyclass
