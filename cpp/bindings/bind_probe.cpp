// What watches a training: looks at exact losses that show a divergence, or by how much weights are too large.
#include <memory>

#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/exact/shrinking.hpp"
#include "manyclass/train/probe.hpp"

namespace manyclass {

void bind_probe(py::module_& m) {
  using Of = ProbedTraining;
  Fields<Of> fields("Probe");
  fields.needs<&Of::n_points, &Of::n_classes, &Of::n_passes, &Of::n_drawn, &Of::at_zero>();
  fields.takes<&Of::minimised, &Of::has_integrals>();
  list_fields(m, fields);
  py::class_<LossProbe>(m, "Probe")
      .def(py::init([fields](const py::kwargs& given) { return std::make_unique<LossProbe>(fields.of(given)); }))
      .def("look", &LossProbe::look, "n_iter"_a, "losses"_a, "weights"_a)
      .def("best", &LossProbe::best)
      .def("last", &LossProbe::last)
      .def("verdict", &LossProbe::verdict)
      .def_property_readonly("n_points", &LossProbe::n_points)
      .def_property_readonly("passes", &LossProbe::passes)
      .def_property_readonly("least_rise", &LossProbe::least_rise)
      .def_property("looks", &LossProbe::looks, &LossProbe::restore)
      .def_readonly_static("many_passes", &LossProbe::many_passes)
      .def_readonly_static("free_pairs", &LossProbe::free_pairs)
      .def_readonly_static("share", &LossProbe::share);
  m.def(
      "shrinking_gains",
      [](std::span<const float> scores, std::span<const float> intercept, std::span<const Index> labels,
         std::span<const double> factors) {
        const ShrinkingGains gains = released([&] { return shrinking_gains(scores, intercept, labels, factors); });
        return std::pair(array_of(gains.sums), array_of(gains.squares));
      },
      "scores"_a, "intercept"_a, "labels"_a, "factors"_a);
  m.def("mean_and_error", &mean_and_error, "values"_a, "weights"_a);
}

}  // namespace manyclass
