// Training: trainers over a caller's arrays, and the order of classes.
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/step/schedule.hpp"
#include "manyclass/train/gaussian_posterior.hpp"
#include "manyclass/train/plan.hpp"
#include "manyclass/weights/accumulate.hpp"
#include "manyclass/weights/reorder.hpp"

namespace manyclass {

namespace {

using namespace py::literals;

// A trainer and the arrays that it works on, kept alive together.
struct BoundTrainer {
  std::unique_ptr<Trainer> trainer;
  py::list arrays;
};

void check_size(const char* what, py::ssize_t size, py::ssize_t expected) {
  if (size != expected) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(size) + " elements; it must have " +
                                std::to_string(expected));
  }
}

// The arrays that sparse and dense problems share; an empty one switches off what it is for.
struct State {
  Array<Index> labels;
  Array<float> x_sq;
  Array<double> u;
  Array<float> weights;
  Array<float> intercept;
  Array<float> scale;
  Array<double> norm_sq;
  Array<float> squares;  // of the adaptive step, like weights
  Array<float> intercept_squares;
  Array<Index> heads;
  py::ssize_t n_classes;
  Array<double> local_scale{};  // of q, beside u

  std::vector<py::array> arrays() const {
    return {labels, x_sq, u, weights, intercept, scale, norm_sq, squares, intercept_squares, heads, local_scale};
  }
};

// Sizes in elements; `optional` arrays may be empty.
void check_state(const State& state, py::ssize_t n_points) {
  const auto optional = [](const char* what, const py::array& a, py::ssize_t expected) {
    if (a.size() != 0) check_size(what, a.size(), expected);
  };
  check_size("labels", state.labels.size(), n_points);
  check_size("x_sq", state.x_sq.size(), n_points);
  check_size("u", state.u.size(), n_points);
  const py::ssize_t k = state.n_classes, w = state.weights.size();
  optional("local_scale", state.local_scale, n_points);
  optional("intercept", state.intercept, k);
  optional("scale", state.scale, k);
  optional("norm_sq", state.norm_sq, k);
  optional("squares", state.squares, w);
  if (state.squares.size() != 0) {
    check_size("intercept_squares", state.intercept_squares.size(), state.intercept.size());
  }
  for (const Index label : view(state.labels)) {
    if (label < 0 || label >= k) {
      throw std::invalid_argument("label " + std::to_string(label) + " is outside [0, " + std::to_string(k) + ")");
    }
  }
  for (const Index head : view(state.heads)) {
    if (head < -1 || head >= k) {
      throw std::invalid_argument("head class " + std::to_string(head) + " is outside [-1, " + std::to_string(k) + ")");
    }
  }
}

template <class Rows>
Problem<Rows> problem_of(const typename Rows::Data& x, State& state) {
  check_state(state, x.n_rows());
  const auto rows = [&](Array<float>& matrix) { return Rows(mutable_view(matrix), x.n_cols); };
  Problem<Rows> problem{x,
                        view(state.labels),
                        view(state.x_sq),
                        mutable_view(state.u),
                        {rows(state.weights), mutable_view(state.intercept), mutable_view(state.scale)},
                        as_index(state.n_classes, "n_classes"),
                        {},
                        mutable_view(state.intercept_squares)};
  if (state.squares.size() != 0) problem.squares = rows(state.squares);
  problem.local_scale = mutable_view(state.local_scale);
  return problem;
}

void augment_reduce(Plan& plan, std::string noise, std::string local_step, double local_floor,
                    const std::string& family, const Array<double>& nodes, const Array<double>& weights, double entropy,
                    double largest_scale) {
  check_size("weights", weights.size(), nodes.size());
  plan.noise = std::move(noise);
  plan.local_step = std::move(local_step);
  plan.local_floor = local_floor;
  if (plan.noise == "gumbel") return;
  const std::span<const double> v = view(nodes), w = view(weights);
  double mean = 0, square = 0;
  for (std::size_t j = 0; j < v.size(); ++j) {
    mean += w[j] * v[j];
    square += w[j] * v[j] * v[j];
  }
  plan.family = std::make_shared<const LocalFamily>(LocalFamily{{v.begin(), v.end()},
                                                                {w.begin(), w.end()},
                                                                mean,
                                                                square - mean * mean,
                                                                entropy,
                                                                largest_scale,
                                                                local_draw_named(family)});
}

BoundTrainer bind_trainer(const Plan& plan, const AnyProblem& problem, State& state, py::list arrays) {
  Plan own = plan;
  if (own.family != nullptr) check_size("local_scale", state.local_scale.size(), state.labels.size());
  own.settings.norm_sq = mutable_view(state.norm_sq);
  own.heads = view(state.heads);
  own.head_size = state.heads.ndim() == 2 ? as_index(state.heads.shape(1), "the size of a head") : 0;
  if (own.selection == "head_tail") {
    check_size("heads, counted in rows,", state.heads.ndim() == 2 ? state.heads.shape(0) : 0, state.labels.size());
    if (static_cast<std::size_t>(own.head_size) > HeadTail::max_head) {
      throw std::invalid_argument("a head has " + std::to_string(own.head_size) + " classes; at most " +
                                  std::to_string(HeadTail::max_head) + " are supported");
    }
  }
  for (const py::array& array : state.arrays()) arrays.append(array);
  return {make_trainer(own, problem), std::move(arrays)};
}

// Feature-major weights have a row for each feature, padded to whole cache lines.
void check_columns(const State& state, const CsrView& x) {
  const py::ssize_t rows = state.weights.ndim() == 2 ? state.weights.shape(0) : -1;
  const py::ssize_t stride = state.weights.ndim() == 2 ? state.weights.shape(1) : 0;
  check_size("weights, counted in rows,", rows, x.n_cols);
  if (stride < state.n_classes || stride % static_cast<py::ssize_t>(line_floats) != 0) {
    throw std::invalid_argument("rows of the weights have " + std::to_string(stride) +
                                " columns; they must be a multiple of 16 and at least n_classes");
  }
}

BoundTrainer sparse_trainer(const Plan& plan, const Array<Offset>& indptr, const Array<Index>& indices,
                            const Array<float>& data, py::ssize_t n_features, State& state) {
  const CsrView x = csr_view(indptr, indices, data, n_features);
  check_columns(state, x);
  py::list arrays;
  arrays.append(indptr);
  arrays.append(indices);
  arrays.append(data);
  return bind_trainer(plan, problem_of<FeatureRows<float>>(x, state), state, std::move(arrays));
}

BoundTrainer dense_trainer(const Plan& plan, const Array<float>& data, State& state) {
  const DenseView x = dense_view(data);
  check_size("weights", state.weights.size(), state.n_classes * x.n_cols);
  py::list arrays;
  arrays.append(data);
  return bind_trainer(plan, problem_of<ClassRows<float>>(x, state), state, std::move(arrays));
}

// The trainer of a Gaussian posterior; variances and what is collected for them are stored as the weights are.
BoundTrainer posterior(const Plan& plan, const py::object& x, py::ssize_t n_features, State& state,
                       Array<float> variances, Array<float> collected) {
  check_size("variances", variances.size(), state.weights.size());
  check_size("collected", collected.size(), state.weights.size());
  if (plan.family != nullptr) check_size("local_scale", state.local_scale.size(), state.labels.size());
  py::list arrays;
  for (const py::array& array : state.arrays()) arrays.append(array);
  for (const py::object& held : {x, py::object(variances), py::object(collected)}) arrays.append(held);
  const auto bind = [&]<class Rows>(const Problem<Rows>& problem, Index n_cols) -> BoundTrainer {
    const PosteriorProblem<Rows> of{problem, Rows(mutable_view(variances), n_cols),
                                    Rows(mutable_view(collected), n_cols)};
    return {posterior_trainer(plan, of), std::move(arrays)};
  };
  if (py::isinstance<py::tuple>(x)) {
    const auto parts = x.cast<py::tuple>();
    const CsrView data = csr_view(parts[0].cast<Array<Offset>>(), parts[1].cast<Array<Index>>(),
                                  parts[2].cast<Array<float>>(), n_features);
    check_columns(state, data);
    return bind(problem_of<FeatureRows<float>>(data, state), data.n_cols);
  }
  const DenseView data = dense_view(x.cast<Array<float>>());
  check_size("weights", state.weights.size(), state.n_classes * data.n_cols);
  return bind(problem_of<ClassRows<float>>(data, state), data.n_cols);
}

}  // namespace

void bind_train(py::module_& m) {
  py::class_<Plan>(m, "Plan")
      .def(py::init([](std::string solver, std::string formulation, std::string selection, std::string root,
                       py::ssize_t n_negatives, Options options, std::uint64_t seed, int n_threads, py::ssize_t batch,
                       bool mean_of_batch, bool share_classes, bool hogwild, bool shuffle, double ridge, double u_max,
                       double max_norm, const std::string& isa) {
             Plan plan;
             plan.solver = std::move(solver);
             plan.formulation = std::move(formulation);
             plan.selection = std::move(selection);
             plan.root = std::move(root);
             plan.n_negatives = as_index(n_negatives, "n_negatives");
             plan.options = std::move(options);
             plan.settings.seed = seed;
             plan.settings.n_threads = n_threads;
             plan.settings.batch = as_index(batch, "batch");
             plan.settings.mean_of_batch = mean_of_batch;
             plan.settings.share_classes = share_classes;
             plan.settings.hogwild = hogwild;
             plan.settings.shuffle = shuffle;
             plan.settings.ridge = ridge;
             plan.settings.u_max = u_max;
             plan.settings.max_norm = max_norm;
             plan.settings.isa = isa_named(isa);
             check_plan(plan);
             return plan;
           }),
           py::kw_only(), "solver"_a, "formulation"_a, "selection"_a, "root"_a, "n_negatives"_a, "options"_a, "seed"_a,
           "n_threads"_a, "batch"_a, "mean_of_batch"_a, "share_classes"_a, "hogwild"_a, "shuffle"_a, "ridge"_a,
           "u_max"_a, "max_norm"_a, "isa"_a)
      .def("augment_reduce", &augment_reduce, py::kw_only(), "noise"_a, "local_step"_a, "local_floor"_a, "family"_a,
           "nodes"_a.noconvert(), "weights"_a.noconvert(), "entropy"_a, "largest_scale"_a,
           "Makes the plan one of augment and reduce.");

  py::class_<State>(m, "State")
      .def(py::init([](Array<Index> labels, Array<float> x_sq, Array<double> u, Array<float> weights,
                       Array<float> intercept, Array<float> scale, Array<double> norm_sq, Array<float> squares,
                       Array<float> intercept_squares, Array<Index> heads, py::ssize_t n_classes) {
             return State{labels, x_sq,     u, weights, intercept, scale, norm_sq, squares, intercept_squares,
                          heads,  n_classes};
           }),
           py::kw_only(), "labels"_a.noconvert(), "x_sq"_a.noconvert(), "u"_a.noconvert(), "weights"_a.noconvert(),
           "intercept"_a.noconvert(), "scale"_a.noconvert(), "norm_sq"_a.noconvert(), "squares"_a.noconvert(),
           "intercept_squares"_a.noconvert(), "heads"_a.noconvert(), "n_classes"_a)
      .def_readwrite("local_scale", &State::local_scale);

  py::class_<Progress>(m, "Progress")
      .def_readonly("loss", &Progress::loss)
      .def_readonly("class_updates", &Progress::class_updates)
      .def_readonly("diverged_at", &Progress::diverged_at)
      .def_readonly("tokens", &Progress::tokens)
      .def_readonly("pairs", &Progress::pairs)
      .def_readonly("loss_pairs", &Progress::loss_pairs)
      .def_readonly("refused", &Progress::refused);

  py::class_<BoundTrainer>(m, "Trainer")
      .def_static("sparse", &sparse_trainer, "plan"_a, "indptr"_a.noconvert(), "indices"_a.noconvert(),
                  "data"_a.noconvert(), "n_features"_a, "state"_a)
      .def_static("dense", &dense_trainer, "plan"_a, "data"_a.noconvert(), "state"_a)
      .def_static("posterior", &posterior, "plan"_a, "x"_a, "n_features"_a, "state"_a, "variances"_a.noconvert(),
                  "collected"_a.noconvert())
      .def(
          "run",
          [](BoundTrainer& self, int epoch, double eta, double eta_u, py::ssize_t first, py::ssize_t last,
             double loss) {
            const Stretch stretch{epoch, eta, eta_u, as_index(first, "first"), as_index(last, "last"), loss};
            const py::gil_scoped_release nogil;
            return self.trainer->run(stretch);
          },
          py::kw_only(), "epoch"_a, "eta"_a, "eta_u"_a, "first"_a, "last"_a, "loss"_a);

  m.def(
      "step_size",
      [](const std::string& schedule, double eta_0, double decay, int epoch) {
        return step_size(schedule_named(schedule), eta_0, decay, epoch);
      },
      "schedule"_a, "eta_0"_a, "decay"_a, "epoch"_a);

  m.def(
      "class_order",
      [](py::ssize_t n_classes, std::uint64_t seed) {
        Array<Index> order(n_classes);
        const std::span<Index> classes = mutable_view(order);
        for (std::size_t k = 0; k < classes.size(); ++k) classes[k] = static_cast<Index>(k);
        shuffle(classes, Rng({seed, 0}, class_order_item));
        return order;
      },
      "n_classes"_a, "seed"_a);
  m.def(
      "accumulate",
      [](Array<float> total, const Array<float>& weights, const Array<float>& scale, bool of_columns, int n_threads) {
        if (weights.ndim() != 2) throw std::invalid_argument("weights must be a matrix");
        check_size("total", total.size(), weights.size());
        const py::ssize_t columns = weights.shape(1);
        if (scale.size() > (of_columns ? columns : weights.shape(0))) {
          throw std::invalid_argument("there are more factors than classes");
        }
        const std::span<float> sum = mutable_view(total);
        const std::span<const float> w = view(weights), g = view(scale);
        const py::gil_scoped_release nogil;
        accumulate(sum, w, static_cast<std::size_t>(columns), of_columns ? g : std::span<const float>{},
                   of_columns ? std::span<const float>{} : g, n_threads);
      },
      "total"_a.noconvert(), "weights"_a.noconvert(), "scale"_a.noconvert(), "of_columns"_a, "n_threads"_a);
  m.def(
      "reorder_columns",
      [](Array<float> weights, const Array<Index>& source, int n_threads) {
        if (weights.ndim() != 2 || source.size() > weights.shape(1)) {
          throw std::invalid_argument("the order has more classes than the weights have columns");
        }
        const auto stride = static_cast<std::size_t>(weights.shape(1));
        const std::span<float> w = mutable_view(weights);
        const std::span<const Index> order = view(source);
        const py::gil_scoped_release nogil;
        reorder_columns(w, stride, order, n_threads);
      },
      "weights"_a.noconvert(), "source"_a.noconvert(), "n_threads"_a);
  m.def(
      "reorder_rows",
      [](Array<float> weights, const Array<Index>& source) {
        if (weights.ndim() != 2 || source.size() != weights.shape(0)) {
          throw std::invalid_argument("the order must have one class for each row of the weights");
        }
        const auto width = static_cast<std::size_t>(weights.shape(1));
        const std::span<float> w = mutable_view(weights);
        const std::span<const Index> order = view(source);
        const py::gil_scoped_release nogil;
        reorder_rows(w, width, order);
      },
      "weights"_a.noconvert(), "source"_a.noconvert());
}

}  // namespace manyclass
