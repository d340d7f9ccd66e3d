// Sampled gradients of a last layer.
#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/train/output_layer.hpp"

namespace manyclass {

namespace {

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

void bind_output_layer(py::module_& m) {
  py::class_<Sampler>(m, "Sampler")
      .def(py::init(&sampler_of), "selection"_a, py::kw_only(), "n_classes"_a, "n_negatives"_a, "options"_a, "labels"_a)
      .def("layer_gradient", layer_gradient, py::kw_only(), "x"_a, "labels"_a, "items"_a, "weights"_a, "intercept"_a,
           "u"_a, "delta"_a, "seed"_a, "step"_a, "n_threads"_a, "isa"_a = "auto");
}

}  // namespace manyclass
