// See label_steps.hpp.
#include "manyclass/train/minibatches/label_steps.hpp"

#include <stdexcept>
#include <type_traits>

#include "manyclass/objective/decoupled_sum.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/objective/pick_all_sum.hpp"
#include "manyclass/step/implicit_pick_all.hpp"
#include "manyclass/train/common/solvers.hpp"

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
  const double carry = carry_of(choice.formulation);
  const bool decoupled = choice.reduction == "decoupled", normalized = choice.reduction == "pick_all_normalized";
  const auto refuse = [](const std::string& what, const std::string& where) {
    throw std::invalid_argument(what + ", which does not exist with " + where);
  };
  const auto* name = std::get_if<std::string>(&choice.formulation);
  const std::string form = "formulation is " + (name ? "'" + *name + "'" : std::to_string(carry));
  if (decoupled && carry != 0) refuse(form, "reduction 'decoupled'");
  return with_part<std::shared_ptr<const LabelStep>>(
      Rules{}, "solver", choice.rule, [&]<class Part>() -> std::shared_ptr<const LabelStep> {
        check_options(choice.rule_options, {&Part::facts, 1}, "solver '" + choice.rule + "'");
        if constexpr (std::is_same_v<Part, Implicit>) {
          if (decoupled) refuse("reduction is 'decoupled'", "solver 'implicit'");
          if (carry != 0) refuse(form, "several labels and solver 'implicit'");
          return made(ImplicitPickAll{normalized});
        } else {
          const auto rule = part_with<Part>(choice.rule_options);
          if (decoupled) return made(DecoupledSum<Part>{rule});
          return made(PickAllSum<Part>{carry, normalized, rule});
        }
      });
}

}  // namespace manyclass
