// The local family of augment and reduce as a training has it: with its name, and where every point starts.
#pragma once

#include <string>
#include <utility>

#include "manyclass/exact/local_family.hpp"
#include "manyclass/train/points/problem_checks.hpp"

namespace manyclass {

struct FamilyOfPoints {
  std::string name;  // of the standard member
  LocalFamily of;
  LocationScale start;  // the best q where all classes have the same score
};

inline FamilyOfPoints family_of_points(const std::string& name, std::span<const double> nodes,
                                       std::span<const double> weights, double entropy, double largest_scale,
                                       LocationScale start) {
  return {name, local_family(name, nodes, weights, entropy, largest_scale), start};
}

}  // namespace manyclass
