// Steps of labels in the double sum, by the name of their rule for the carried number and of their reduction.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "manyclass/core/facts.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/step/label_step.hpp"

namespace manyclass {

inline constexpr std::array<Facts, 3> reduction_facts{{
    {.name = "pick_all",
     .sentence = "The log-losses of the labels of a row are added up.",
     .source = "Menon et al., NeurIPS 2019"},
    {.name = "pick_all_normalized",
     .sentence = "The mean of the log-losses of the labels of a row.",
     .source = "Menon et al., NeurIPS 2019"},
    {.name = "decoupled",
     .sentence = "A log-loss for each label among the wrong classes: labels of a row do not compete.",
     .source = "DEXML, arXiv 2310.10636"},
}};

// The solvers that have such a step: rules for u, and the implicit step.
std::span<const Facts> label_solver_facts();

struct LabelStepChoice {
  std::string rule;  // a solver of those below
  std::string reduction = "pick_all";
  Formulation formulation = "proposed";
  Options rule_options{};  // the rule's own numbers
};

// Throws std::invalid_argument for names that are not listed and combinations that do not exist.
std::shared_ptr<const LabelStep> label_step(const LabelStepChoice& choice);

}  // namespace manyclass
