// The extension module manyclass._testing: pieces of the core that only tests call, for builds of theirs alone.
#include "module.hpp"

namespace manyclass {

// Tests interrupt no piece.
void ask_python() {}

PYBIND11_MODULE(_testing, m) {
  m.doc() = "Pieces of the core of manyclass, for its tests.";
  py::module_::import("manyclass._core");  // which binds the types that both have
  Module module(m);
  bind_math(module);
  bind_pieces(module);
  bind_steps(module);
}

}  // namespace manyclass
