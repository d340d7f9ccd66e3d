// Single parts of training, for the tests: random words, a draw, a step, a root. They are looked up in the
// registry that trainers are made from, so what is tested is what trains.
#include <pybind11/functional.h>

#include <functional>
#include <numeric>
#include <vector>

#include "bindings/fields.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/math/root.hpp"
#include "manyclass/step/minibatch_prox.hpp"
#include "manyclass/train/minibatches/label_steps.hpp"
#include "manyclass/train/points/plan.hpp"
#include "module.hpp"

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

Fields<SampledPoint> point_fields() {
  return Fields<SampledPoint>("SampledPoint")
      .needs<&SampledPoint::scores, &SampledPoint::alpha, &SampledPoint::x_sq, &SampledPoint::eta,
             &SampledPoint::eta_u>()
      .takes<&SampledPoint::label_score, &SampledPoint::visits, &SampledPoint::label_alpha, &SampledPoint::x_sqs,
             &SampledPoint::times, &SampledPoint::item>()
      .with<&SampledPoint::key>(Fields<RngKey>("RngKey").takes<&RngKey::seed, &RngKey::epoch>());
}

void check(const SampledPoint& point) {
  if (point.scores.size() != point.alpha.size()) throw std::invalid_argument("scores and alpha differ in length");
}

// One step of a plan. What a point carries is u, or the location and the scale of q.
struct OneStep {
  Plan plan;
  SampledPoint point;
  double u, scale = 1;
};

py::tuple step(OneStep one) {
  check(one.point);
  auto p = empty_array<float>(one.point.size());
  std::vector<float> scratch(2 * one.point.size());
  one.point.local_scale = &one.scale;
  one.point.item += first_local_item;
  const Move move = step_named(one.plan)->solve(one.plan.settings.isa, one.point, one.u, mutable_view(p), scratch);
  return py::make_tuple(p, move.label, one.u, one.scale, move.loss, move.total);
}

struct OneLabelStep {
  LabelStepChoice choice;
  SampledPoint point;
  std::span<const float> labels;
  double local;
  Isa isa;
};

py::tuple labels_step(OneLabelStep one) {
  check(one.point);
  if (one.labels.empty()) throw std::invalid_argument("there is no label");
  auto of_scores = empty_array<float>(one.point.size()), of_labels = empty_array<float>(one.labels.size());
  const auto n_labels = static_cast<double>(one.labels.size());
  one.point.label_score = std::accumulate(one.labels.begin(), one.labels.end(), 0.0) / n_labels;
  LabelGradient g{mutable_view(of_labels), mutable_view(of_scores)};
  const double value = label_step(one.choice)->solve(one.isa, one.point, one.labels, one.local, g);
  return py::make_tuple(of_scores, of_labels, one.local, value);
}

struct OneMinibatch {
  Minibatch batch;
  std::span<const double> u;
};

py::tuple minibatch_prox(OneMinibatch one) {
  Minibatch& batch = one.batch;
  const std::size_t n = batch.n(), n_classes = batch.n_classes();
  const std::vector<double> ones(n, 1);
  if (batch.weights.empty()) batch.weights = ones;
  if (batch.gram.size() != n * n || batch.scores.size() != n * n_classes || batch.log_weights.size() != n_classes ||
      one.u.size() != n || batch.weights.size() != n) {
    throw std::invalid_argument("the arrays do not describe one batch");
  }
  for (const std::size_t y : batch.labels) {
    if (y >= n_classes) throw std::invalid_argument("a label is out of range");
  }
  std::vector<double> u(one.u.begin(), one.u.end());
  Array<double> c({n_classes, n});
  auto t = empty_array<double>(n_classes);
  const auto outcome = MinibatchProx().solve(batch, u, mutable_view(c), mutable_view(t));
  return py::make_tuple(c, t, array_of(u), outcome.loss, outcome.moved, outcome.error);
}

}  // namespace

void bind_steps(Module& m) {
  m.def(
      "random_words",
      [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t item, std::size_t n) {
        Rng rng({seed, epoch}, item);
        std::vector<std::uint64_t> words(n);
        for (std::uint64_t& word : words) word = rng.next();
        return words;
      },
      "seed"_a, "epoch"_a, "item"_a, "n"_a);
  m.def(
      "random_below",
      [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t item, const std::vector<std::uint32_t>& bounds) {
        Rng rng({seed, epoch}, item);
        std::vector<std::uint32_t> numbers;
        numbers.reserve(bounds.size());
        for (const std::uint32_t n : bounds) numbers.push_back(rng.below(n));
        return numbers;
      },
      "seed"_a, "epoch"_a, "item"_a, "bounds"_a);
  m.def("draw", &draw, "selection"_a, "n_classes"_a, "n_negatives"_a, "label"_a, "seed"_a, "epoch"_a, "item"_a,
        "solver"_a = "implicit", "head"_a = std::vector<Index>{}, "(classes, alpha) of one draw for point 0.");
  bind_function(
      m,
      Fields<OneStep>("step").needs<&OneStep::plan, &OneStep::u>().takes<&OneStep::scale>().with<&OneStep::point>(
          point_fields()),
      step, "(p, label's move, u, scale, loss, total) of one step.");
  bind_function(m,
                Fields<OneLabelStep>("label_step")
                    .needs<&OneLabelStep::labels, &OneLabelStep::local, &OneLabelStep::isa>()
                    .with<&OneLabelStep::choice>(label_step_fields())
                    .with<&OneLabelStep::point>(point_fields()),
                labels_step, "(gradient of scores, of labels, carried number, value) of one step of several labels.");
  bind_function(
      m,
      Fields<OneMinibatch>("minibatch_prox")
          .needs<&OneMinibatch::u>()
          .with<&OneMinibatch::batch>(Fields<Minibatch>("Minibatch")
                                          .needs<&Minibatch::gram, &Minibatch::scores, &Minibatch::shrinks,
                                                 &Minibatch::log_weights, &Minibatch::labels, &Minibatch::has_intercept,
                                                 &Minibatch::share, &Minibatch::eta, &Minibatch::eta_u>()
                                          .takes<&Minibatch::weights>()),
      minibatch_prox, "(c, t, u, loss, largest move of a score, error bound) of one step of a batch.");
  m.def(
      "find_root",
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
