// See label_steps.hpp.
#include "manyclass/train/label_steps.hpp"

#include <stdexcept>
#include <type_traits>

#include "manyclass/objective/decoupled_sum.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/objective/pick_all_sum.hpp"
#include "manyclass/step/implicit_pick_all.hpp"
#include "manyclass/train/solvers.hpp"

namespace manyclass {

namespace {

template <class Part>
inline constexpr bool steps_by_labels = RuleForU<Part> || std::is_same_v<Part, Implicit>;

template <class... Part>
auto rules_among(Parts<Part...>) {
  return (Parts<>{} + ... + std::conditional_t<steps_by_labels<Part>, Parts<Part>, Parts<>>{});
}

using Rules = decltype(rules_among(Solvers{}));

template <StepOfLabels Kind>
std::shared_ptr<const LabelStep> made(Kind step) {
  return std::make_shared<const LabelStepOf<Kind>>(step);
}

}  // namespace

std::span<const Facts> label_solver_facts() { return Rules::facts; }

std::shared_ptr<const LabelStep> label_step(const LabelStepChoice& choice) {
  place_of("reduction", choice.reduction, reduction_facts);  // throws for a name that is not listed
  const bool raman = place_of("formulation", choice.formulation, formulation_facts) == 1;
  const bool decoupled = choice.reduction == "decoupled", normalized = choice.reduction == "pick_all_normalized";
  const auto refuse = [&](const char* what, const std::string& value, const std::string& where) {
    throw std::invalid_argument(std::string(what) + " is '" + value + "', which does not exist with " + where);
  };
  if (decoupled && raman) refuse("formulation", choice.formulation, "reduction 'decoupled'");
  return with_part<std::shared_ptr<const LabelStep>>(
      Rules{}, "solver", choice.rule, [&]<class Part>() -> std::shared_ptr<const LabelStep> {
        check_options(choice.rule_options, {&Part::facts, 1}, "solver '" + choice.rule + "'");
        if constexpr (std::is_same_v<Part, Implicit>) {
          if (decoupled) refuse("reduction", choice.reduction, "solver 'implicit'");
          if (raman) refuse("formulation", choice.formulation, "several labels and solver 'implicit'");
          return made(ImplicitPickAll{normalized});
        } else {
          const auto rule = part_with<Part>(choice.rule_options);
          if (decoupled) return made(DecoupledSum<Part>{rule});
          return made(PickAllSum<Part>{raman ? 1.0 : 0.0, normalized, rule});
        }
      });
}

}  // namespace manyclass
