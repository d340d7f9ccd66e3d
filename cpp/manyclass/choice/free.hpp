// Which coefficients of a choice model are free, the others being fixed or equal to others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "manyclass/choice/form.hpp"

namespace manyclass {

inline constexpr double least_dissimilarity = 0.05;

// The name of a coefficient, and "positive", "negative", the name of another coefficient that it equals, or its value.
using Constraint = std::pair<std::string, std::variant<double, std::string>>;

struct FreeCoefficients {
  // The place of each coefficient among the free ones, several at one place being equal; -1: fixed.
  std::vector<std::int64_t> place;
  std::vector<double> fixed;      // values of fixed ones, 0 for the others
  std::vector<double> low, high;  // of the free ones

  std::size_t size() const { return low.size(); }

  // All coefficients of the free ones.
  std::vector<double> whole(std::span<const double> free) const;
  // The gradient by the free ones, of that by all.
  std::vector<double> reduced(std::span<const double> gradient) const;
};

// Throws std::invalid_argument where a constraint names no coefficient or contradicts another one. A dissimilarity is
// in [least_dissimilarity, 1]; a nest of one alternative has none, which is as if it were 1.
FreeCoefficients free_coefficients(const ChoiceForm& form, std::span<const std::string> names,
                                   std::span<const Constraint> constraints);

}  // namespace manyclass
