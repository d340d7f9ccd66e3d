// Instruction sets by name.
#pragma once

#include <stdexcept>
#include <string>

#include "manyclass/core/simd.hpp"

namespace manyclass {

// "auto" is the widest of this processor; a wider one is refused.
inline Isa isa_named(const std::string& name) {
  if (name == "auto") return best_isa();
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (name == name_of(isa)) {
      if (isa > best_isa()) throw std::invalid_argument("this processor has no '" + name + "'");
      return isa;
    }
  }
  throw std::invalid_argument("isa is '" + name + "'; it must be one of 'auto', 'baseline', 'avx2', 'avx512'");
}

}  // namespace manyclass
