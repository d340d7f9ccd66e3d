// A selection by its name.
#include "manyclass/select/any_select.hpp"

#include <stdexcept>
#include <string>

namespace manyclass {

AnySelect select_named(std::string_view name, const SelectArguments& arguments) {
  return with_part<AnySelect>(Alternatives<AnySelect>{}, "selection", name, [&]<class Select>() -> AnySelect {
    if (arguments.with_label && !Select::facts.has(flag::label)) {
      throw std::invalid_argument("selection '" + std::string(name) +
                                  "' cannot draw the label, which the solver needs");
    }
    return Select::make(arguments);
  });
}

}  // namespace manyclass
