// What each file here adds to the module.
#pragma once

#include "bindings/functions.hpp"

namespace manyclass {

void bind_math(Module& m);
void bind_pieces(Module& m);
void bind_steps(Module& m);

}  // namespace manyclass
