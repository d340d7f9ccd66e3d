// The list of selections, and a selection by its name.
#pragma once

#include <string_view>
#include <variant>

#include "manyclass/select/all_classes.hpp"
#include "manyclass/select/block.hpp"
#include "manyclass/select/frequency.hpp"
#include "manyclass/select/frequency_block.hpp"
#include "manyclass/select/head_tail.hpp"
#include "manyclass/select/uniform.hpp"

namespace manyclass {

using AnySelect = std::variant<Block, Uniform, AllClasses, Frequency, FrequencyBlock, HeadTail>;

inline constexpr std::span<const Facts> selection_facts = Alternatives<AnySelect>::facts;

// Throws std::invalid_argument for a name that is not listed or a label that cannot be drawn.
AnySelect select_named(std::string_view name, const SelectArguments& arguments);

}  // namespace manyclass
