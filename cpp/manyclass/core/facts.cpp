// Checks of names and values against facts.
#include "manyclass/core/facts.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>

namespace manyclass {

std::size_t place_of(std::string_view kind, std::string_view name, std::span<const Facts> choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].name == name) return i;
  }
  std::ostringstream message;
  message << kind << " is '" << name << "'; it must be one of ";
  for (std::size_t i = 0; i < choices.size(); ++i) message << (i == 0 ? "'" : ", '") << choices[i].name << "'";
  throw std::invalid_argument(message.str());
}

double value_of(const Parameter& parameter, const Options& options) {
  const auto given = options.find(parameter.name);
  if (given == options.end()) return parameter.initial;
  const double value = given->second;
  const bool above = parameter.open_low ? value > parameter.low : value >= parameter.low;
  if (std::isfinite(value) && above && value <= parameter.high) return value;
  std::ostringstream message;
  message << parameter.name << " is " << value << "; it must be finite";
  if (std::isfinite(parameter.low)) message << (parameter.open_low ? ", more than " : ", at least ") << parameter.low;
  if (std::isfinite(parameter.high)) message << " and at most " << parameter.high;
  throw std::invalid_argument(message.str());
}

void check_options(const Options& options, std::span<const Facts> parts, std::string_view whose) {
  for (const auto& [name, value] : options) {
    bool known = false;
    std::ostringstream choices;
    for (const Facts& facts : parts) {
      for (const Parameter& parameter : facts.parameters) {
        choices << (choices.tellp() > 0 ? ", '" : "'") << parameter.name << "'";
        if (parameter.name != name) continue;
        known = true;
        value_of(parameter, options);
      }
    }
    if (known) continue;
    std::ostringstream message;
    message << "option '" << name << "' is " << value << "; " << whose
            << (choices.tellp() > 0 ? " has " + choices.str() : std::string(" has no options"));
    throw std::invalid_argument(message.str());
  }
}

}  // namespace manyclass
