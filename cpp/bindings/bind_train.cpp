// Training: trainers over a caller's arrays, which they keep alive, and the order of classes.
#include <memory>

#include "bindings/family_of_points.hpp"
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/step/schedule.hpp"
#include "manyclass/train/minibatches/labels.hpp"
#include "manyclass/train/points/gaussian_posterior.hpp"
#include "manyclass/train/points/plan.hpp"
#include "manyclass/train/points/posterior_spread.hpp"
#include "manyclass/train/points/problem_checks.hpp"
#include "manyclass/weights/accumulate.hpp"
#include "manyclass/weights/reorder.hpp"
#include "manyclass/weights/shard_merges.hpp"

namespace manyclass {

namespace {

// What sparse and dense problems share; an empty array switches off what it is for.
struct State {
  std::span<const Index> labels;
  std::span<const float> x_sq;
  std::span<double> u;
  Matrix<float> weights;
  std::span<float> intercept, scale;
  std::span<double> norm_sq;
  // Of the adaptive step; squares and gradients are stored like the weights.
  std::span<float> squares, intercept_squares, gradients, intercept_gradients;
  Matrix<const Index> heads;
  Index n_classes;
  std::span<double> local_scale;  // of q, beside u
  std::span<const double> sample_weight, counts, others;
  // Of steps by curvature; see Curvature.
  std::span<const double> feature_squares, feature_squares_now;
  std::span<double> curvatures;
  double n_elsewhere;
};

void check_shape(const State& state, const CsrView& x) {
  check_size("weights, counted in rows,", static_cast<std::size_t>(state.weights.rows),
             static_cast<std::size_t>(x.n_cols));
  if (state.weights.cols < state.n_classes || state.weights.width() % line_floats != 0) {
    throw std::invalid_argument("rows of the weights have " + std::to_string(state.weights.cols) +
                                " columns; they must be a multiple of 16 and at least n_classes");
  }
}

void check_shape(const State& state, const DenseView& x) {
  check_size("weights", state.weights.data.size(),
             static_cast<std::size_t>(state.n_classes) * static_cast<std::size_t>(x.n_cols));
}

template <class Rows>
Problem<Rows> problem_of(const typename Rows::Data& x, const State& s) {
  check_shape(s, x);
  const Rows rows(s.weights.data, x.n_cols);
  Problem<Rows> problem{x,  s.labels,      s.x_sq,          s.u,     {rows, s.intercept, s.scale}, s.n_classes,
                        {}, s.local_scale, s.sample_weight, s.counts};
  if (!s.others.empty()) problem.elsewhere = Elsewhere{s.others, s.n_elsewhere};
  if (!s.curvatures.empty()) {
    check_size("feature_squares_now", s.feature_squares_now.size(), s.feature_squares.size());
    problem.curvature = Curvature(s.feature_squares, s.feature_squares_now, s.curvatures);
  }
  if (!s.squares.empty()) {
    check_size("squares", s.squares.size(), s.weights.data.size());
    problem.adaptive = Adaptive<Rows>{Rows(s.squares, x.n_cols), s.intercept_squares};
  }
  if (!s.gradients.empty()) {
    check_size("gradients", s.gradients.size(), s.squares.size());
    problem.adaptive.value().gradients = Rows(s.gradients, x.n_cols);
    problem.adaptive.value().intercept_gradients = s.intercept_gradients;
  }
  return problem;
}

// The plan and f(problem), for the storage that the data have.
template <class F>
std::unique_ptr<Trainer> with_problem(Plan plan, const AnyData& x, const State& state, const F& f) {
  plan.settings.norm_sq = state.norm_sq;
  plan.heads = state.heads.data;
  plan.head_size = state.heads.cols;
  const auto make = [&]<class Rows>(const Problem<Rows>& problem) {
    check(problem, plan, static_cast<std::size_t>(state.heads.rows));
    return f(plan, problem);
  };
  if (const auto* csr = std::get_if<CsrView>(&x)) return make(problem_of<FeatureRows<float>>(*csr, state));
  return make(problem_of<ClassRows<float>>(std::get<DenseView>(x), state));
}

std::unique_ptr<Trainer> points(const Plan& plan, const py::object& x, py::ssize_t n_features, const State& state) {
  return with_problem(plan, data_view(x, n_features), state,
                      [](const Plan& own, const auto& problem) { return make_trainer(own, problem); });
}

// Variances, and what is collected for them, are stored as the weights are.
std::unique_ptr<Trainer> posterior(const Plan& plan, const py::object& x, py::ssize_t n_features, const State& state,
                                   std::span<float> variances, std::span<float> collected) {
  check_size("variances", variances.size(), state.weights.data.size());
  check_size("collected", collected.size(), state.weights.data.size());
  return with_problem(plan, data_view(x, n_features), state,
                      [&]<class Rows>(const Plan& own, const Problem<Rows>& problem) {
                        const Index n = problem.x.n_cols;
                        return posterior_trainer(own, PosteriorProblem<Rows>{problem, {variances, n}, {collected, n}});
                      });
}

// Points with several labels. Rows of classes and embeddings are of one width; squares are empty, or one for each row.
struct LabelArrays {
  py::object x;
  std::span<const Offset> labels_indptr;
  std::span<const Index> labels;
  std::span<float> embeddings, embedding_squares;
  std::span<const float> centre;
  Matrix<float> classes;               // or rows of features, beside
  std::span<float> feature_intercept;  // these intercepts
  std::span<float> class_squares;
  py::ssize_t n_features, n_hidden;
  bool intercept, relu;
  std::span<const double> sample_weight;
  std::span<double> local;
  std::span<const double> counts;
  double embedding_ridge = 1;
};

VectorRows vector_rows(std::span<float> rows, std::span<float> squares, std::size_t width, const char* what) {
  if (width == 0 || width % line_floats != 0 || rows.size() % width != 0 ||
      (!squares.empty() && squares.size() * width != rows.size())) {
    throw std::invalid_argument(std::string("the ") + what + " do not fit their width or their squares");
  }
  return {rows, squares, width};
}

// Rows of classes or, where there are intercepts for them, of features.
LabelWeights label_weights(const LabelArrays& a) {
  if (a.feature_intercept.empty()) {
    return vector_rows(a.classes.data, a.class_squares, a.classes.width(), "classes");
  }
  const std::size_t n_classes = a.feature_intercept.size();
  if (a.classes.rows != a.n_features || a.classes.width() % line_floats != 0 || a.classes.width() < n_classes ||
      (!a.class_squares.empty() && a.class_squares.size() != n_classes)) {
    throw std::invalid_argument("the rows of features do not fit the features, the classes or the squares");
  }
  const FeatureRows<float> rows(a.classes.data, static_cast<Index>(a.n_features));
  return LabelWeights(
      FeatureWeights{{rows, a.intercept ? a.feature_intercept : std::span<float>{}, {}}, a.class_squares, n_classes});
}

LabelProblem problem_of(const LabelArrays& a) {
  const LabelProblem problem{
      {data_view(a.x, a.n_features), vector_rows(a.embeddings, a.embedding_squares, a.classes.width(), "embeddings"),
       a.centre, static_cast<std::size_t>(a.n_hidden), a.intercept, a.relu},
      {a.labels_indptr, a.labels},
      label_weights(a),
      a.sample_weight,
      a.local,
      a.counts,
      a.embedding_ridge};
  check(problem);
  return problem;
}

Fields<Plan> plan_fields() {
  Fields<Settings> settings("Settings");
  settings.needs<&Settings::seed, &Settings::n_threads, &Settings::batch, &Settings::shuffle, &Settings::isa>();
  settings.takes<&Settings::first_point, &Settings::mean_of_batch, &Settings::share_classes, &Settings::hogwild,
                 &Settings::ridge, &Settings::exact_first_u, &Settings::u_max, &Settings::max_norm, &Settings::decay,
                 &Settings::decay_every>();
  Fields<Plan> fields("Plan");
  fields.needs<&Plan::solver, &Plan::selection, &Plan::n_negatives, &Plan::options>();
  fields.takes<&Plan::formulation, &Plan::root, &Plan::partition, &Plan::noise, &Plan::local_step, &Plan::bound>();
  fields.with<&Plan::settings>(settings);
  fields.with<&Plan::local_gain>(Fields<Gain>("Gain").takes<&Gain::gain, &Gain::power, &Gain::floor>());
  return fields.add("family", false, [](Plan& plan, py::handle family) {
    plan.family = std::make_shared<const LocalFamily>(family.cast<const FamilyOfPoints&>().of);
  });
}

Fields<LabelPlan> label_plan_fields() {
  Fields<SourceChoice> source("SourceChoice");
  source.needs<&SourceChoice::source, &SourceChoice::selection, &SourceChoice::n_negatives, &SourceChoice::options,
               &SourceChoice::log_alpha>();
  source.takes<&SourceChoice::budget, &SourceChoice::n_probe, &SourceChoice::fill>();
  source.with<&SourceChoice::messages>(
      Fields<MessageOptions>("MessageOptions")
          .takes<&MessageOptions::n_iter, &MessageOptions::step, &MessageOptions::tolerance,
                 &MessageOptions::message_rule, &MessageOptions::threshold>());
  source.add("index", false, [](SourceChoice& choice, py::handle index) {
    if (py::isinstance<ClusterIndex>(index)) choice.index = index.cast<ClusterIndex*>();
    if (py::isinstance<DecomposedIndex>(index)) choice.index = index.cast<DecomposedIndex*>();
  });
  Fields<LabelPlan> fields("Trainer.labels");
  fields.needs<&LabelPlan::loss, &LabelPlan::smoothing, &LabelPlan::implicit>().takes<&LabelPlan::local_step>();
  fields.with<&LabelPlan::source>(source);
  fields.with<&LabelPlan::step>(label_step_fields());
  return fields.with<&LabelPlan::settings>(
      Fields<Settings>("Settings")
          .needs<&Settings::seed, &Settings::n_threads, &Settings::batch, &Settings::shuffle, &Settings::share_classes,
                 &Settings::isa>()
          .takes<&Settings::first_point, &Settings::inverse_every, &Settings::ridge>());
}

Fields<State> state_fields() {
  return Fields<State>("State")
      .needs<&State::labels, &State::x_sq, &State::u, &State::weights, &State::intercept, &State::n_classes>()
      .takes<&State::scale, &State::norm_sq, &State::squares, &State::intercept_squares, &State::gradients,
             &State::intercept_gradients, &State::heads, &State::local_scale, &State::sample_weight, &State::counts,
             &State::others, &State::n_elsewhere, &State::feature_squares, &State::feature_squares_now,
             &State::curvatures>();
}

Fields<LabelArrays> label_arrays_fields() {
  return Fields<LabelArrays>("LabelArrays")
      .needs<&LabelArrays::x, &LabelArrays::labels_indptr, &LabelArrays::labels, &LabelArrays::embeddings,
             &LabelArrays::embedding_squares, &LabelArrays::classes, &LabelArrays::class_squares,
             &LabelArrays::n_features, &LabelArrays::n_hidden, &LabelArrays::intercept, &LabelArrays::relu>()
      .takes<&LabelArrays::centre, &LabelArrays::feature_intercept, &LabelArrays::sample_weight, &LabelArrays::local,
             &LabelArrays::counts, &LabelArrays::embedding_ridge>();
}

Fields<Stretch> stretch_fields() {
  return Fields<Stretch>("Trainer.run")
      .member_as<&Stretch::pass>("epoch", true)
      .needs<&Stretch::eta, &Stretch::eta_u, &Stretch::first, &Stretch::last>()
      .takes<&Stretch::loss, &Stretch::eta_end, &Stretch::seconds>();
}

}  // namespace

void bind_train(Module& m) {
  bind_struct(m, plan_fields(), check_plan);
  bind_struct(m, state_fields(), [](const State&) {});
  bind_struct(m, label_arrays_fields(), [](const LabelArrays&) {});

  Class<Progress>(m, "Progress")
      .def_readonly("visits", &Progress::visits)
      .def_readonly("loss", &Progress::loss)
      .def_readonly("class_updates", &Progress::class_updates)
      .def_readonly("diverged_at", &Progress::diverged_at)
      .def_readonly("tokens", &Progress::tokens)
      .def_readonly("pairs", &Progress::pairs)
      .def_readonly("loss_pairs", &Progress::loss_pairs)
      .def_readonly("refused", &Progress::refused);

  const Fields<LabelPlan> label_plan = label_plan_fields();
  const Fields<Stretch> stretch = stretch_fields();
  list_fields(m, label_plan);
  list_fields(m, stretch);
  Class<Trainer>(m, "Trainer")
      .def_static("points", &points, "plan"_a, "x"_a, "n_features"_a, "state"_a, KeepAll())
      .def_static("posterior", &posterior, "plan"_a, "x"_a, "n_features"_a, "state"_a, "variances"_a, "collected"_a,
                  KeepAll())
      .def_static(
          "labels",
          [label_plan](const LabelArrays& arrays, const py::kwargs& plan) {
            return label_trainer(problem_of(arrays), label_plan.of(plan));
          },
          "arrays"_a, KeepAll())
      .def("run", [stretch](Trainer& self, const py::kwargs& given) {
        const Stretch visits = stretch.of(given);
        return released([&] { return self.run(visits); });
      });

  bind_function(m,
                Fields<PosteriorSpread>("end_posterior_pass")
                    .needs<&PosteriorSpread::means, &PosteriorSpread::collected, &PosteriorSpread::precisions,
                           &PosteriorSpread::variances, &PosteriorSpread::width, &PosteriorSpread::n_used,
                           &PosteriorSpread::prior, &PosteriorSpread::mean_weight, &PosteriorSpread::most,
                           &PosteriorSpread::n_pass>(),
                end_posterior_pass);
  m.attr("curvature_gain") = Curvature::gain;
  m.def(
      "step_size",
      [](const std::string& schedule, double eta_0, double decay, int epoch) {
        return step_size(schedule_named(schedule), eta_0, decay, epoch);
      },
      "schedule"_a, "eta_0"_a, "decay"_a, "epoch"_a);

  m.def(
      "class_order", [](Index n_classes, std::uint64_t seed) { return array_of(class_order(n_classes, seed)); },
      "n_classes"_a, "seed"_a);
  m.def(
      "multiply_by_ways",
      [](std::span<float> matrix, std::span<const Offset> indptr, std::span<const Index> indices,
         std::span<const double> curvatures, std::span<const double> rates, double coupling, double least,
         double moved_least, std::span<const float> n_moved, bool inverse) {
        const Ways ways{{indptr, indices, curvatures}, rates, coupling, least, moved_least, n_moved};
        released([&] { multiply_by_ways(matrix, ways, inverse); });
      },
      "matrix"_a, py::kw_only(), "indptr"_a, "indices"_a, "curvatures"_a, "rates"_a, "coupling"_a, "least"_a,
      "moved_least"_a, "n_moved"_a, "inverse"_a);
  m.def("coupling_of", coupling_of, "n_shards"_a, "together"_a, "furthest"_a);
  m.def(
      "add_changes",
      [](std::span<const Index> rows, std::span<const float> matrix, std::span<const float> shares,
         const Matrix<float>& total, std::span<float> n_moved) {
        released([&] { add_changes({rows, matrix, shares}, total.data, n_moved, total.width()); });
      },
      "rows"_a, "matrix"_a, "shares"_a, "total"_a, "n_moved"_a);
  m.def(
      "accumulate",
      [](std::span<float> total, const Matrix<const float>& weights, std::span<const float> scale, bool of_columns,
         int n_threads) {
        released([&] { accumulate(total, weights.data, weights.width(), scale, of_columns, n_threads); });
      },
      "total"_a, "weights"_a, "scale"_a, "of_columns"_a, "n_threads"_a);
  m.def(
      "reorder_columns",
      [](const Matrix<float>& weights, std::span<const Index> source, int n_threads) {
        released([&] { reorder_columns(weights.data, weights.width(), source, n_threads); });
      },
      "weights"_a, "source"_a, "n_threads"_a);
  m.def(
      "reorder_rows",
      [](const Matrix<float>& weights, std::span<const Index> source) {
        released([&] { reorder_rows(weights.data, weights.width(), source); });
      },
      "weights"_a, "source"_a);
}

}  // namespace manyclass
