// Checks that the parts of a problem fit each other, before a trainer views them.
#pragma once

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

#include "manyclass/train/points/plan.hpp"

namespace manyclass {

inline void check_size(const std::string& what, std::size_t size, std::size_t expected) {
  if (size == expected) return;
  throw std::invalid_argument(what + " has " + std::to_string(size) + " elements; it must have " +
                              std::to_string(expected));
}

// Ids in [lowest, n_classes).
inline void check_ids(const char* what, std::span<const Index> ids, Index lowest, Index n_classes) {
  for (const Index id : ids) {
    if (id >= lowest && id < n_classes) continue;
    throw std::invalid_argument(std::string(what) + " " + std::to_string(id) + " is outside [" +
                                std::to_string(lowest) + ", " + std::to_string(n_classes) + ")");
  }
}

// A family of q by the name of its standard member, with the moments of its rule.
inline LocalFamily local_family(const std::string& name, std::span<const double> nodes, std::span<const double> weights,
                                double entropy, double largest_scale) {
  check_size("weights", weights.size(), nodes.size());
  double mean = 0, square = 0;
  for (std::size_t j = 0; j < nodes.size(); ++j) {
    mean += weights[j] * nodes[j];
    square += weights[j] * nodes[j] * nodes[j];
  }
  return {{nodes.begin(), nodes.end()},
          {weights.begin(), weights.end()},
          mean,
          square - mean * mean,
          entropy,
          largest_scale,
          local_draw_named(name)};
}

// Everything but the weights, whose shape is their storage's. `n_heads` rows of heads are the plan's.
template <class Rows>
void check(const Problem<Rows>& problem, const Plan& plan, std::size_t n_heads) {
  const auto n = static_cast<std::size_t>(problem.x.n_rows()), k = static_cast<std::size_t>(problem.n_classes);
  const auto optional = [](const char* what, std::size_t size, std::size_t expected) {
    if (size != 0) check_size(what, size, expected);
  };
  check_size("labels", problem.labels.size(), n);
  check_size("x_sq", problem.x_sq.size(), n);
  check_size("u", problem.u.size(), n);
  optional("local_scale", problem.local_scale.size(), n);
  optional("sample_weight", problem.weights.size(), n);
  optional("counts", problem.counts.size(), k);
  optional("intercept", problem.model.intercept.size(), k);
  optional("scale", problem.model.scale.size(), k);
  optional("norm_sq", plan.settings.norm_sq.size(), k);
  if (problem.adaptive) {
    check_size("intercept_squares", problem.adaptive->intercept_squares.size(), problem.model.intercept.size());
  }
  if (problem.curvature) {
    check_size("sums of squares", problem.curvature->n_sums(), static_cast<std::size_t>(problem.x.n_cols) + 1);
    check_size("curvatures", problem.curvature->n_classes(), k);
    if (problem.elsewhere || problem.adaptive || plan.solver == "minibatch_implicit" ||
        std::isfinite(plan.settings.max_norm)) {
      throw std::invalid_argument(
          "steps by curvature need all classes in one place, steps of single points that are not adaptive, and no "
          "max_norm");
    }
  }
  check_ids("label", problem.labels, problem.elsewhere ? -1 : 0, problem.n_classes);
  if (problem.elsewhere) {
    check_size("others", problem.elsewhere->log_sums.size(), n);
    check_size("counts, with classes elsewhere,", problem.counts.size(), k);
    if (plan.solver != "implicit" || carry_of(plan.formulation) != 1 || !plan.noise.empty() || problem.adaptive ||
        std::isfinite(plan.settings.max_norm) || plan.selection == "head_tail") {
      throw std::invalid_argument(
          "a block of classes needs solver 'implicit' with formulation 'raman', no max_norm, no adaptive steps and no "
          "heads");
    }
  }
  check_ids("head class", plan.heads, -1, problem.n_classes);
  if (plan.family != nullptr) check_size("local_scale", problem.local_scale.size(), n);
  if (plan.selection != "head_tail") return;
  check_size("heads, counted in rows,", n_heads, n);
  if (static_cast<std::size_t>(plan.head_size) > HeadTail::max_head) {
    throw std::invalid_argument("a head has " + std::to_string(plan.head_size) + " classes; at most " +
                                std::to_string(HeadTail::max_head) + " are supported");
  }
}

}  // namespace manyclass
