// The single run-time dispatch: from the names of a plan to the types of its parts.
#include "manyclass/train/points/plan.hpp"

#include <array>
#include <stdexcept>
#include <utility>

#include "manyclass/train/points/batch_prox.hpp"
#include "manyclass/train/points/points.hpp"

namespace manyclass {

void check_plan(const Plan& plan) {
  const std::array<Facts, 2> parts{solver_named(plan.solver),
                                   selection_facts[place_of("selection", plan.selection, selection_facts)]};
  check_options(plan.options, parts, "solver '" + plan.solver + "' with selection '" + plan.selection + "'");
}

AnySelect select_named(const Plan& plan, Index n_classes, std::span<const Index> labels,
                       std::span<const double> counts) {
  const Facts& solver = solver_named(plan.solver);
  SelectArguments arguments{n_classes, plan.n_negatives, labels, solver.has(flag::draws_label)};
  arguments.options = plan.options;
  arguments.heads = plan.heads;
  arguments.head_size = plan.head_size;
  arguments.counts = counts;
  return select_named(solver.has(flag::all_classes) ? AllClasses::facts.name : plan.selection, arguments);
}

std::unique_ptr<Trainer> make_trainer(const Plan& plan, const AnyProblem& any_problem) {
  check_plan(plan);
  if (solver_named(plan.solver).has(flag::batch)) {
    return std::visit(
        [&]<class Rows>(const Problem<Rows>& problem) -> std::unique_ptr<Trainer> {
          const auto partition = static_cast<Partition>(place_of("partition", plan.partition, partition_facts));
          return batch_prox_trainer(problem, partition, plan.n_negatives, plan.settings);
        },
        any_problem);
  }
  std::unique_ptr<const PointStep> step = step_named(plan);
  Settings settings = plan.settings;
  settings.carry = carry_of(plan.formulation);
  return std::visit(
      [&]<class Rows>(const Problem<Rows>& problem) {
        return std::visit(
            [&]<class Select>(const Select& select) -> std::unique_ptr<Trainer> {
              return points_trainer(problem, SelectionOf<typename Select::Classes>(select), std::move(step), settings);
            },
            select_named(plan, problem.n_classes, problem.labels, problem.counts));
      },
      any_problem);
}

}  // namespace manyclass
