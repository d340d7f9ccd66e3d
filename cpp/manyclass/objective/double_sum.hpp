// The softmax as a sum over points and classes: f_i = u + e^-u (1 + sum_{k != y} e^{d_k}), whose minimum over
// u is the log-loss plus one (Fagan & Iyengar 2018, eq. 5).
//
// The value carried between visits is v = u + carry z_y: carry = 0 is the proposed form (eq. 6-7), carry = 1
// is Raman et al.'s (eq. 8); the family of any carry is in appendix A of the arXiv version.
#pragma once

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <variant>

#include "manyclass/objective/sampled_sum.hpp"
#include "manyclass/objective/u_rules.hpp"

namespace manyclass {

inline constexpr std::array<Facts, 2> formulation_facts{{
    {.name = "proposed",
     .sentence = "A number u for each point beside differences of scores.",
     .source = "Fagan & Iyengar 2018, eq. 6-7"},
    {.name = "raman", .sentence = "The sum v = u + z_y is carried instead of u.", .source = "Raman et al. 2016"},
}};

// What is carried: one of these by its name, or the number `carry` itself.
using Formulation = std::variant<std::string, double>;

// Throws std::invalid_argument for a name that is not listed, and for what is no finite number.
inline double carry_of(const Formulation& form) {
  if (const auto* name = std::get_if<std::string>(&form)) {
    return static_cast<double>(place_of("formulation", *name, formulation_facts));
  }
  const double carry = std::get<double>(form);
  if (!std::isfinite(carry)) {
    throw std::invalid_argument("formulation is " + std::to_string(carry) + "; a number must be finite");
  }
  return carry;
}

template <RuleForU Rule>
struct DoubleSum {
  double carry;
  Rule rule;

  // Moves v by the rule; writes df/dz_k to g. The label's is -(G + carry df/du), since u = v - carry z_y.
  Gradient gradient(const SampledPoint& point, double& v, std::span<float> g) const {
    const SampledSum sum = sampled_sum(point, g);
    const double u = rule.before(v - carry * point.label_score, point, sum, g);
    v = u + carry * point.label_score;

    const double to_gradient = std::exp(sum.shift - u);
    const auto factor = static_cast<float>(to_gradient);
    for (std::size_t k = 0; k < point.size(); ++k) g[k] *= factor;
    const double wrong = sum.scaled * to_gradient;
    const double slope_u = 1 - std::exp(-u) - wrong;
    return {wrong + carry * slope_u, Rule::gradient_step ? slope_u : 0.0, sum.log_a, wrong};
  }
};

}  // namespace manyclass
