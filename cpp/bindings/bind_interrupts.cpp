// What ends the core's work from outside: Python's signal handlers, and a limit of time.
#include <limits>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/core/interrupt.hpp"

namespace manyclass {

namespace {

thread_local Deadline limit(std::numeric_limits<double>::infinity());
PyObject* time_is_up = nullptr;

}  // namespace

void ask_python() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0 && limit.passed()) PyErr_SetNone(time_is_up);
  if (PyErr_Occurred() != nullptr) throw Interrupted();
}

void bind_interrupts(Module& m) {
  time_is_up = py::exception<Interrupted>(m, "TimeIsUpError").release().ptr();  // as long as the process
  m.def(
      "limit_seconds", [](double seconds) { limit = Deadline(seconds); }, "seconds"_a,
      "From now on work of this thread that takes longer raises TimeIsUpError; infinity: none.");
}

}  // namespace manyclass
