// Single parts of training, for the tests: random words, a draw, a step, a root. They are looked up in the
// registry that trainers are made from, so what is tested is what trains.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <functional>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/math/root.hpp"
#include "manyclass/step/minibatch_prox.hpp"
#include "manyclass/train/label_steps.hpp"
#include "manyclass/train/plan.hpp"

namespace manyclass {

namespace {

using namespace py::literals;

py::tuple draw(const std::string& selection, py::ssize_t n_classes, py::ssize_t n_negatives, Index label,
               std::uint64_t seed, std::uint64_t epoch, std::uint64_t item, const std::string& solver,
               const std::vector<Index>& head) {
  if (n_classes < 2 || n_negatives < 1 || label < 0 || label >= n_classes) {
    throw std::invalid_argument("a draw needs two classes, one negative and a label in range");
  }
  Plan plan;
  plan.solver = solver;
  plan.selection = selection;
  plan.n_negatives = as_index(n_negatives, "n_negatives");
  // Frequencies of the selection "frequency": class k has k + 1 points.
  std::vector<Index> labels;
  for (Index k = 0; k < n_classes; ++k) labels.insert(labels.end(), static_cast<std::size_t>(k) + 1, k);
  plan.heads = head;
  plan.head_size = as_index(static_cast<py::ssize_t>(head.size()), "the size of the head");
  const AnySelect any_select = select_named(plan, as_index(n_classes, "n_classes"), labels);
  return std::visit(
      [&](const auto& select) {
        std::vector<Index> storage(select.capacity());
        std::vector<float> alpha(select.capacity());
        std::vector<float> times(select.capacity());
        const auto drawn = select.draw(Rng({seed, epoch}, item), 0, std::span(&label, 1), {storage, alpha, times});
        std::vector<Index> classes(drawn.size());
        for (std::size_t c = 0; c < drawn.size(); ++c) classes[c] = drawn[c];
        alpha.resize(drawn.size());
        return py::make_tuple(classes, alpha);
      },
      any_select);
}

py::tuple step(const std::string& solver, const std::string& formulation, const std::string& root,
               const Options& options, const std::string& isa, const Array<float>& scores, const Array<float>& alpha,
               double label_score, double x_sq, double eta, double eta_u, double u, int visits, float label_alpha,
               const Array<float>& x_sqs, const Array<float>& times) {
  if (scores.size() != alpha.size()) throw std::invalid_argument("scores and alpha differ in length");
  Plan plan;
  plan.solver = solver;
  plan.formulation = formulation;
  plan.root = root;
  plan.options = options;
  check_plan(plan);
  Array<float> p(scores.size());
  std::vector<float> scratch(2 * static_cast<std::size_t>(scores.size()));
  const SampledPoint point{view(scores), view(alpha), label_score, x_sq,        eta,
                           eta_u,        visits,      label_alpha, view(x_sqs), view(times)};
  const Move move = step_named(plan)->solve(isa_named(isa), point, u, mutable_view(p), scratch);
  return py::make_tuple(p, move.label, u, move.loss, move.total);
}

py::tuple labels_step(const std::string& rule, const std::string& reduction, const std::string& formulation,
                      const Options& options, const std::string& isa, const Array<float>& scores,
                      const Array<float>& alpha, const Array<float>& labels, double x_sq, double eta, double eta_u,
                      double local, int visits) {
  if (scores.size() != alpha.size() || labels.size() == 0) {
    throw std::invalid_argument("scores and alpha differ in length, or there is no label");
  }
  const auto step = label_step({rule, reduction, formulation, options});
  Array<float> of_scores(scores.size()), of_labels(labels.size());
  double mean = 0;
  for (const float z : view(labels)) mean += static_cast<double>(z);
  mean /= static_cast<double>(labels.size());
  const SampledPoint point{view(scores), view(alpha), mean, x_sq, eta, eta_u, visits};
  LabelGradient g{mutable_view(of_labels), mutable_view(of_scores)};
  const double value = step->solve(isa_named(isa), point, view(labels), local, g);
  return py::make_tuple(of_scores, of_labels, local, value);
}

py::tuple bound_step(const Plan& plan, const std::string& isa, const Array<float>& scores, const Array<float>& alpha,
                     double label_score, double x_sq, double eta, double mu, double scale, int visits,
                     const Array<float>& x_sqs, std::uint64_t seed, std::uint64_t epoch, std::uint64_t item) {
  if (scores.size() != alpha.size()) throw std::invalid_argument("scores and alpha differ in length");
  Array<float> p(scores.size());
  std::vector<float> scratch(2 * static_cast<std::size_t>(scores.size()));
  SampledPoint point{view(scores), view(alpha), label_score, x_sq, eta, eta, visits, 1, view(x_sqs), {}};
  point.local_scale = &scale;
  point.key = {seed, epoch};
  point.item = first_local_item + item;
  const Move move = step_named(plan)->solve(isa_named(isa), point, mu, mutable_view(p), scratch);
  return py::make_tuple(p, move.label, mu, scale, move.loss);
}

py::tuple minibatch_prox(const Array<double>& gram, const Array<double>& scores, const Array<double>& shrinks,
                         const Array<double>& log_weights, const std::vector<std::size_t>& labels, bool has_intercept,
                         double share, double eta, double eta_u, const std::vector<double>& u,
                         std::vector<double> weights) {
  if (weights.empty()) weights.assign(labels.size(), 1);
  const auto n = static_cast<py::ssize_t>(labels.size());
  if (gram.size() != n * n || scores.size() != n * shrinks.size() || log_weights.size() != shrinks.size() ||
      u.size() != labels.size() || weights.size() != labels.size()) {
    throw std::invalid_argument("the arrays do not describe one batch");
  }
  for (const std::size_t y : labels) {
    if (y >= static_cast<std::size_t>(shrinks.size())) throw std::invalid_argument("a label is out of range");
  }
  std::vector<double> new_u = u;
  Array<double> c(std::vector<py::ssize_t>{shrinks.size(), n}), t(shrinks.size());
  MinibatchProx prox;
  const Minibatch batch{view(gram), view(scores), view(shrinks), view(log_weights), labels, weights, has_intercept,
                        share,      eta,          eta_u};
  const auto outcome = prox.solve(batch, new_u, mutable_view(c), mutable_view(t));
  return py::make_tuple(c, t, new_u, outcome.loss, outcome.moved, outcome.error);
}

}  // namespace

void bind_parts(py::module_& m) {
  m.def(
      "_random_words",
      [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t item, std::size_t n) {
        Rng rng({seed, epoch}, item);
        std::vector<std::uint64_t> words(n);
        for (std::uint64_t& word : words) word = rng.next();
        return words;
      },
      "seed"_a, "epoch"_a, "item"_a, "n"_a);
  m.def(
      "_random_below",
      [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t item, const std::vector<std::uint32_t>& bounds) {
        Rng rng({seed, epoch}, item);
        std::vector<std::uint32_t> numbers;
        numbers.reserve(bounds.size());
        for (const std::uint32_t n : bounds) numbers.push_back(rng.below(n));
        return numbers;
      },
      "seed"_a, "epoch"_a, "item"_a, "bounds"_a);
  m.def("_draw", &draw, "selection"_a, "n_classes"_a, "n_negatives"_a, "label"_a, "seed"_a, "epoch"_a, "item"_a,
        "solver"_a = "implicit", "head"_a = std::vector<Index>{}, "(classes, alpha) of one draw for point 0.");
  m.def("_step", &step, py::kw_only(), "solver"_a, "formulation"_a, "root"_a, "options"_a, "isa"_a,
        "scores"_a.noconvert(), "alpha"_a.noconvert(), "label_score"_a, "x_sq"_a, "eta"_a, "eta_u"_a, "u"_a,
        "visits"_a = 0, "label_alpha"_a = 1.0F, "x_sqs"_a = Array<float>(0), "times"_a = Array<float>(0),
        "(p, label's move, u, loss, total) of one step.");
  m.def("_label_step", &labels_step, py::kw_only(), "rule"_a, "reduction"_a, "formulation"_a, "options"_a, "isa"_a,
        "scores"_a.noconvert(), "alpha"_a.noconvert(), "labels"_a.noconvert(), "x_sq"_a, "eta"_a, "eta_u"_a, "local"_a,
        "visits"_a = 0, "(gradient of scores, of labels, carried number, value) of one step of several labels.");
  m.def("_bound_step", &bound_step, py::kw_only(), "plan"_a, "isa"_a, "scores"_a.noconvert(), "alpha"_a.noconvert(),
        "label_score"_a, "x_sq"_a, "eta"_a, "mu"_a, "scale"_a, "visits"_a, "x_sqs"_a.noconvert(), "seed"_a, "epoch"_a,
        "item"_a, "(p, label's move, mu, scale, loss) of one step of augment and reduce.");
  m.def("_minibatch_prox", &minibatch_prox, py::kw_only(), "gram"_a.noconvert(), "scores"_a.noconvert(),
        "shrinks"_a.noconvert(), "log_weights"_a.noconvert(), "labels"_a, "has_intercept"_a, "share"_a, "eta"_a,
        "eta_u"_a, "u"_a, "weights"_a = std::vector<double>(),
        "(c, t, u, loss, largest move of a score, error bound) of one step of a batch.");
  m.def(
      "_find_root",
      [](const std::string& finder, double low, double high, double start, double close,
         const std::function<std::tuple<double, double, double, double>(double)>& f) {
        return find_root(finder == "newton" ? RootFinder::newton : RootFinder::bisection, {low, high}, start, close,
                         [&](double q) {
                           const auto [value, slope, jump, bend] = f(q);
                           return Probe{value, slope, jump, bend};
                         });
      },
      py::kw_only(), "finder"_a, "low"_a, "high"_a, "start"_a, "close"_a, "f"_a,
      "Root less the last q that f (value, slope, jump, second derivative) was called at.");
}

}  // namespace manyclass
