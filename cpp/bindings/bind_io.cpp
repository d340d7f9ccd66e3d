// Text and binary CSR files.
#include "bindings/module.hpp"

namespace manyclass {

void bind_io(pybind11::module_&) {}

}  // namespace manyclass
