// What is known of a training before it begins: the bytes that it takes, and how far its steps go together.
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/step/sum_of_steps.hpp"
#include "manyclass/train/common/footprint.hpp"

namespace manyclass {

void bind_plans(Module& m) {
  Fields<Footprint> fields("Footprint");
  fields.needs<&Footprint::n_features, &Footprint::n_classes, &Footprint::copies, &Footprint::row, &Footprint::stored,
               &Footprint::window>();
  fields.takes<&Footprint::dim>();
  list_fields(m, fields);
  Class<Footprint>(m, "Footprint")
      .def(constructor([fields](const py::kwargs& given) { return fields.of(given); }))
      .def_readonly("n_features", &Footprint::n_features)
      .def_readonly("n_classes", &Footprint::n_classes)
      .def("of_model", &Footprint::of_model)
      .def("of_row", &Footprint::of_row)
      .def("total", &Footprint::total, "rows"_a)
      .def("least", &Footprint::least, "rows"_a = Footprint::least_rows)
      .def("needed", &Footprint::needed, "rows"_a, "may_hash"_a)
      .def("rows_within", &Footprint::rows_within, "n_bytes"_a)
      .def("with_features", &Footprint::with_features, "n"_a)
      .def("within", &Footprint::within, "n_bytes"_a, "rows"_a, "may_hash"_a);
  m.def(
      "sum_of_steps",
      [](const std::string& schedule, double decay, int n_passes) {
        return sum_of_steps(schedule_named(schedule), decay, n_passes);
      },
      "schedule"_a, "decay"_a, "n_passes"_a);
}

}  // namespace manyclass
