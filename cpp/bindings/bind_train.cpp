// Training: trainers over a caller's arrays, which they keep alive, and the order of classes.
#include <limits>
#include <memory>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/step/schedule.hpp"
#include "manyclass/train/gaussian_posterior.hpp"
#include "manyclass/train/label_steps.hpp"
#include "manyclass/train/labels.hpp"
#include "manyclass/train/plan.hpp"
#include "manyclass/train/problem.hpp"
#include "manyclass/weights/accumulate.hpp"
#include "manyclass/weights/reorder.hpp"

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

std::unique_ptr<Trainer> trainer_of(const Plan& plan, const AnyData& x, const State& state) {
  return with_problem(plan, x, state, [](const Plan& own, const auto& problem) { return make_trainer(own, problem); });
}

std::unique_ptr<Trainer> sparse(const Plan& plan, const py::object& indptr, const py::object& indices,
                                const py::object& data, py::ssize_t n_features, const State& state) {
  return trainer_of(plan, data_view(py::make_tuple(indptr, indices, data), n_features), state);
}

std::unique_ptr<Trainer> dense(const Plan& plan, const Matrix<const float>& data, const State& state) {
  return trainer_of(plan, dense_view(data), state);
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
  Matrix<float> classes;
  std::span<float> class_squares;
  py::ssize_t n_features, n_hidden;
  bool intercept, relu;
  std::span<const double> sample_weight;
  std::span<double> local;
  std::span<const double> counts;
};

VectorRows vector_rows(std::span<float> rows, std::span<float> squares, std::size_t width, const char* what) {
  if (width == 0 || width % line_floats != 0 || rows.size() % width != 0 ||
      (!squares.empty() && squares.size() * width != rows.size())) {
    throw std::invalid_argument(std::string("the ") + what + " do not fit their width or their squares");
  }
  return {rows, squares, width};
}

LabelProblem problem_of(const LabelArrays& a) {
  const std::size_t width = a.classes.width();
  const LabelProblem problem{
      {data_view(a.x, a.n_features), vector_rows(a.embeddings, a.embedding_squares, width, "embeddings"),
       static_cast<std::size_t>(a.n_hidden), a.intercept, a.relu},
      {a.labels_indptr, a.labels},
      vector_rows(a.classes.data, a.class_squares, width, "classes"),
      a.sample_weight,
      a.local,
      a.counts};
  check(problem);
  return problem;
}

std::unique_ptr<Trainer> labels(const LabelArrays& arrays, const std::string& loss, double smoothing, bool implicit,
                                const std::string& source, const std::string& selection, Index n_negatives,
                                const Options& options, bool log_alpha, bool share, const py::object& index,
                                Index budget, Index n_probe, int n_iter, std::string step, float tolerance,
                                std::string rule, std::string reduction, std::string formulation,
                                const Options& rule_options, double local_step, std::uint64_t seed,
                                std::uint64_t first_point, int n_threads, Index batch, bool shuffle, Isa isa) {
  const LabelProblem problem = problem_of(arrays);
  SourceChoice choice{source, selection, n_negatives, options, log_alpha, share, {}, budget, n_probe};
  choice.messages = {n_iter, std::move(step), tolerance};
  if (py::isinstance<ClusterIndex>(index)) choice.index = index.cast<ClusterIndex*>();
  if (py::isinstance<DecomposedIndex>(index)) choice.index = index.cast<DecomposedIndex*>();
  SourceSettings settings{
      problem.classes, problem.map.n_columns(), label_loss(loss, smoothing), implicit, n_threads, isa};
  if (!rule.empty()) {
    settings.step = label_step({std::move(rule), std::move(reduction), std::move(formulation), rule_options});
    settings.local_step = local_step;
  }
  Settings loop;
  loop.seed = seed;
  loop.first_point = first_point;
  loop.n_threads = n_threads;
  loop.batch = batch;
  loop.shuffle = shuffle;
  loop.share_classes = share;
  loop.isa = isa;
  return label_trainer(problem, class_source(choice, problem, settings), loop);
}

void augment_reduce(Plan& plan, std::string noise, std::string local_step, double gain, double gain_power,
                    double local_floor, const std::string& family, std::span<const double> nodes,
                    std::span<const double> weights, double entropy, double largest_scale) {
  plan.noise = std::move(noise);
  plan.local_step = std::move(local_step);
  plan.local_gain = {gain, gain_power, local_floor};
  if (plan.noise != "gumbel") plan.family = local_family(family, nodes, weights, entropy, largest_scale);
}

}  // namespace

void bind_train(py::module_& m) {
  py::class_<Plan>(m, "Plan")
      .def(py::init([](std::string solver, std::string formulation, std::string selection, std::string root,
                       std::string partition, Index n_negatives, Options options, std::uint64_t seed,
                       std::uint64_t first_point, int n_threads, Index batch, bool mean_of_batch, bool share_classes,
                       bool hogwild, bool shuffle, double ridge, double u_max, double max_norm, double decay,
                       Offset decay_every, Isa isa) {
             Plan plan;
             plan.solver = std::move(solver);
             plan.formulation = std::move(formulation);
             plan.selection = std::move(selection);
             plan.root = std::move(root);
             plan.partition = std::move(partition);
             plan.n_negatives = n_negatives;
             plan.options = std::move(options);
             plan.settings.seed = seed;
             plan.settings.first_point = first_point;
             plan.settings.n_threads = n_threads;
             plan.settings.batch = batch;
             plan.settings.mean_of_batch = mean_of_batch;
             plan.settings.share_classes = share_classes;
             plan.settings.hogwild = hogwild;
             plan.settings.shuffle = shuffle;
             plan.settings.ridge = ridge;
             plan.settings.u_max = u_max;
             plan.settings.max_norm = max_norm;
             plan.settings.decay = decay;
             plan.settings.decay_every = decay_every;
             plan.settings.isa = isa;
             check_plan(plan);
             return plan;
           }),
           py::kw_only(), "solver"_a, "formulation"_a, "selection"_a, "root"_a, "partition"_a, "n_negatives"_a,
           "options"_a, "seed"_a, "first_point"_a = 0, "n_threads"_a, "batch"_a, "mean_of_batch"_a, "share_classes"_a,
           "hogwild"_a, "shuffle"_a, "ridge"_a, "u_max"_a, "max_norm"_a, "decay"_a, "decay_every"_a, "isa"_a)
      .def("augment_reduce", &augment_reduce, py::kw_only(), "noise"_a, "local_step"_a, "gain"_a, "gain_power"_a,
           "local_floor"_a, "family"_a, "nodes"_a, "weights"_a, "entropy"_a, "largest_scale"_a,
           "Makes the plan one of augment and reduce.");

  using Numbers = std::span<float>;
  using Doubles = std::span<double>;
  py::class_<State>(m, "State")
      .def(py::init<std::span<const Index>, std::span<const float>, Doubles, Matrix<float>, Numbers, Numbers, Doubles,
                    Numbers, Numbers, Numbers, Numbers, Matrix<const Index>, Index, Doubles, std::span<const double>,
                    std::span<const double>, std::span<const double>, double>(),
           py::kw_only(), "labels"_a, "x_sq"_a, "u"_a, "weights"_a, "intercept"_a, "scale"_a, "norm_sq"_a, "squares"_a,
           "intercept_squares"_a, "gradients"_a = Array<float>(0), "intercept_gradients"_a = Array<float>(0), "heads"_a,
           "n_classes"_a, "local_scale"_a = Array<double>(0), "sample_weight"_a = Array<double>(0),
           "counts"_a = Array<double>(0), "others"_a = Array<double>(0), "n_elsewhere"_a = 0.0, KeepAll());

  py::class_<LabelArrays>(m, "LabelArrays")
      .def(py::init<py::object, std::span<const Offset>, std::span<const Index>, Numbers, Numbers, Matrix<float>,
                    Numbers, py::ssize_t, py::ssize_t, bool, bool, std::span<const double>, Doubles,
                    std::span<const double>>(),
           py::kw_only(), "x"_a, "labels_indptr"_a, "labels"_a, "embeddings"_a, "embedding_squares"_a, "classes"_a,
           "class_squares"_a, "n_features"_a, "n_hidden"_a, "intercept"_a, "relu"_a,
           "sample_weight"_a = Array<double>(0), "local"_a = Array<double>(0), "counts"_a = Array<double>(0),
           KeepAll());

  py::class_<Progress>(m, "Progress")
      .def_readonly("visits", &Progress::visits)
      .def_readonly("loss", &Progress::loss)
      .def_readonly("class_updates", &Progress::class_updates)
      .def_readonly("diverged_at", &Progress::diverged_at)
      .def_readonly("tokens", &Progress::tokens)
      .def_readonly("pairs", &Progress::pairs)
      .def_readonly("loss_pairs", &Progress::loss_pairs)
      .def_readonly("refused", &Progress::refused);

  py::class_<Trainer>(m, "Trainer")
      .def_static("sparse", &sparse, "plan"_a, "indptr"_a, "indices"_a, "data"_a, "n_features"_a, "state"_a, KeepAll())
      .def_static("dense", &dense, "plan"_a, "data"_a, "state"_a, KeepAll())
      .def_static("posterior", &posterior, "plan"_a, "x"_a, "n_features"_a, "state"_a, "variances"_a, "collected"_a,
                  KeepAll())
      .def_static("labels", &labels, "arrays"_a, py::kw_only(), "loss"_a, "smoothing"_a, "implicit"_a, "source"_a,
                  "selection"_a, "n_negatives"_a, "options"_a, "log_alpha"_a, "share"_a, "index"_a, "budget"_a,
                  "n_probe"_a, "n_iter"_a = 1, "step"_a = "full", "tolerance"_a = 1e-3F, "rule"_a = "",
                  "reduction"_a = "pick_all", "formulation"_a = "proposed", "rule_options"_a = Options{},
                  "local_step"_a = 1.0, "seed"_a, "first_point"_a = 0, "n_threads"_a, "batch"_a, "shuffle"_a, "isa"_a,
                  KeepAll())
      .def(
          "run",
          [](Trainer& self, int epoch, double eta, double eta_u, Offset first, Offset last, double loss, double eta_end,
             double seconds) {
            return released([&] { return self.run({epoch, eta, eta_u, first, last, loss, eta_end, seconds}); });
          },
          py::kw_only(), "epoch"_a, "eta"_a, "eta_u"_a, "first"_a, "last"_a, "loss"_a = 0.0, "eta_end"_a = 0.0,
          "seconds"_a = std::numeric_limits<double>::infinity());

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
