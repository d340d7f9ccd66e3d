// Exact evaluation: log-losses and ranks, top-k, scores; and the sampled gradients of a last layer.
#include "bindings/module.hpp"
#include "bindings/weights.hpp"
#include "manyclass/evaluate/log_loss.hpp"
#include "manyclass/evaluate/output_layer.hpp"
#include "manyclass/evaluate/top_k.hpp"

namespace manyclass {

namespace {

auto losses_and_ranks(const py::object& x, py::ssize_t n_features, const Weights& w, std::span<const Index> labels,
                      int n_threads, Isa isa) {
  Array<double> losses(labels.size());
  Array<Index> ranks(labels.size());
  with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    released([&] { log_losses(data, labels, model, n_threads, isa, mutable_view(losses), mutable_view(ranks)); });
  });
  return std::pair(losses, ranks);
}

Array<double> normalizers(const py::object& x, py::ssize_t n_features, const Weights& w, int n_threads, Isa isa) {
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    Array<double> out(data.n_rows());
    released([&] { log_normalizers(data, model, n_threads, isa, mutable_view(out)); });
    return out;
  });
}

auto best(const py::object& x, py::ssize_t n_features, const Weights& w, Index k, int n_threads, Isa isa) {
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    Array<Index> classes({data.n_rows(), k});
    Array<float> log_p({data.n_rows(), k});
    released([&] { top_k(data, model, k, n_threads, isa, mutable_view(classes), mutable_view(log_p)); });
    return std::pair(classes, log_p);
  });
}

void best_wrong(const py::object& x, py::ssize_t n_features, const Weights& w, std::span<const Index> labels,
                std::span<Index> classes, int n_threads) {
  with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    released([&] { top_wrong(data, labels, model, n_threads, best_isa(), classes); });
  });
}

Array<float> scores(const py::object& x, py::ssize_t n_features, const Weights& w, int n_threads, Isa isa) {
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    Array<float> out({data.n_rows(), w.n_classes});
    released([&] { all_scores(data, model, n_threads, isa, mutable_view(out)); });
    return out;
  });
}

// A selection by its name, made once: tables of frequencies cost O(K).
struct Sampler {
  AnySelect select;
  Index n_classes;
};

Sampler sampler_of(const std::string& selection, Index n_classes, Index n_negatives, const Options& options,
                   std::span<const Index> labels) {
  const Facts& facts = selection_facts[place_of("selection", selection, selection_facts)];
  if (facts.has(flag::heads)) throw std::invalid_argument("selection '" + selection + "' has no heads here");
  check_options(options, {&facts, 1}, "selection '" + selection + "'");
  if (n_classes < 2 || n_negatives < 1) throw std::invalid_argument("a draw needs two classes and one negative");
  for (const Index y : labels) {
    if (y < 0 || y >= n_classes) throw std::invalid_argument("a label is out of range");
  }
  SelectArguments arguments{n_classes, n_negatives, labels};
  arguments.options = options;
  return {select_named(selection, arguments), n_classes};
}

py::dict layer_gradient(const Sampler& sampler, const Matrix<const float>& x, std::span<const Index> labels,
                        std::span<const std::int64_t> items, const Matrix<const float>& weights,
                        std::span<const float> intercept, std::span<const double> u, double delta, std::uint64_t seed,
                        std::uint64_t step, int n_threads, Isa isa) {
  if (weights.rows != sampler.n_classes ||
      (!intercept.empty() && intercept.size() != static_cast<std::size_t>(weights.rows))) {
    throw std::invalid_argument("the weights do not fit the sampler");
  }
  const LayerBatch batch{dense_view(x), labels, items, u, delta, {seed, step}};
  const OutputLayer layer{weights.data, intercept, weights.rows, weights.cols};
  const LayerGradient found = released([&] { return sampled_gradient(batch, sampler.select, layer, n_threads, isa); });
  return py::dict("value"_a = found.value, "rows"_a = array_of(found.rows),
                  "dW"_a = matrix_of<float>(found.weights, weights.width()), "db"_a = array_of(found.intercept),
                  "dX"_a = matrix_of<float>(found.x, weights.width()), "u"_a = array_of(found.u),
                  "du"_a = array_of(found.u_slopes));
}

}  // namespace

void bind_evaluate(py::module_& m) {
  py::class_<Weights>(m, "Weights")
      .def(py::init<Matrix<const float>, std::span<const float>, std::span<const float>, Index>(), py::kw_only(),
           "matrix"_a, "intercept"_a, "scale"_a, "n_classes"_a, KeepAll());
  m.def("log_losses", losses_and_ranks, "x"_a, "n_features"_a, "weights"_a, "labels"_a, "n_threads"_a,
        "isa"_a = "auto");
  m.def("log_normalizers", normalizers, "x"_a, "n_features"_a, "weights"_a, "n_threads"_a, "isa"_a = "auto");
  m.def("top_k", best, "x"_a, "n_features"_a, "weights"_a, "k"_a, "n_threads"_a, "isa"_a = "auto");
  m.def("top_wrong", best_wrong, "x"_a, "n_features"_a, "weights"_a, "labels"_a, "classes"_a, "n_threads"_a);
  py::class_<Sampler>(m, "Sampler")
      .def(py::init(&sampler_of), "selection"_a, py::kw_only(), "n_classes"_a, "n_negatives"_a, "options"_a, "labels"_a)
      .def("layer_gradient", layer_gradient, py::kw_only(), "x"_a, "labels"_a, "items"_a, "weights"_a, "intercept"_a,
           "u"_a, "delta"_a, "seed"_a, "step"_a, "n_threads"_a, "isa"_a = "auto");
  m.def("scores", scores, "x"_a, "n_features"_a, "weights"_a, "n_threads"_a, "isa"_a = "auto");
}

}  // namespace manyclass
