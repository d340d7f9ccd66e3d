// Gradients of a last layer, by sampled and by all classes.
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/train/minibatches/output_layer.hpp"

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

// A batch and the layer that it is scored by.
struct LayerCall {
  Matrix<const float> x, weights;
  std::span<const float> intercept;
  LayerBatch batch;
  int n_threads = 1;
  Isa isa = best_isa();
};

Fields<LayerCall> layer_fields() {
  Fields<RngKey> key("RngKey");
  key.needs<&RngKey::seed>().member_as<&RngKey::epoch>("step", true);
  Fields<LayerBatch> batch("LayerBatch");
  batch.needs<&LayerBatch::labels, &LayerBatch::items, &LayerBatch::u, &LayerBatch::delta>();
  batch.with<&LayerBatch::key>(key);
  Fields<LayerCall> fields("Sampler.layer_gradient");
  fields.needs<&LayerCall::x, &LayerCall::weights, &LayerCall::intercept, &LayerCall::n_threads>();
  return fields.takes<&LayerCall::isa>().with<&LayerCall::batch>(batch);
}

py::dict layer_gradient(const Sampler& sampler, const LayerCall& call) {
  const Matrix<const float>& weights = call.weights;
  if (weights.rows != sampler.n_classes ||
      (!call.intercept.empty() && call.intercept.size() != static_cast<std::size_t>(weights.rows))) {
    throw std::invalid_argument("the weights do not fit the sampler");
  }
  LayerBatch batch = call.batch;
  batch.x = dense_view(call.x);
  const OutputLayer layer{weights.data, call.intercept, weights.rows, weights.cols};
  const LayerGradient gradient =
      released([&] { return sampled_gradient(batch, sampler.select, layer, call.n_threads, call.isa); });
  return py::dict("value"_a = gradient.value, "rows"_a = array_of(gradient.rows),
                  "dW"_a = matrix_of<float>(gradient.weights, weights.width()), "db"_a = array_of(gradient.intercept),
                  "dX"_a = matrix_of<float>(gradient.x, weights.width()), "u"_a = array_of(gradient.u),
                  "du"_a = array_of(gradient.u_slopes));
}

struct ExactCall {
  Matrix<const float> x, weights;
  std::span<const float> intercept;
  std::span<const Index> labels;
  std::span<float> dW, db, dX;
  int n_threads = 1;
  Isa isa = best_isa();
};

Fields<ExactCall> exact_fields() {
  using Of = ExactCall;
  Fields<Of> fields("exact_layer_gradient");
  fields.needs<&Of::x, &Of::weights, &Of::intercept, &Of::labels, &Of::dW, &Of::db, &Of::dX, &Of::n_threads>();
  return fields.takes<&Of::isa>();
}

Array<double> exact(const ExactCall& call) {
  const Matrix<const float>& weights = call.weights;
  if (!call.intercept.empty() && call.intercept.size() != static_cast<std::size_t>(weights.rows)) {
    throw std::invalid_argument("the intercepts do not fit the weights");
  }
  const OutputLayer layer{weights.data, call.intercept, weights.rows, weights.cols};
  auto u = empty_array<double>(call.labels.size());
  const ExactLayerGradient out{call.dW, call.db, call.dX, mutable_view(u)};
  released([&] { exact_gradient(dense_view(call.x), call.labels, layer, call.n_threads, call.isa, out); });
  return u;
}

}  // namespace

void bind_output_layer(Module& m) {
  Class<Sampler> samplers(m, "Sampler");
  samplers.def(constructor(&sampler_of), "selection"_a, py::kw_only(), "n_classes"_a, "n_negatives"_a, "options"_a,
               "labels"_a);
  bind_method(m, samplers, layer_fields(), layer_gradient);
  bind_function(m, exact_fields(), exact);
}

}  // namespace manyclass
