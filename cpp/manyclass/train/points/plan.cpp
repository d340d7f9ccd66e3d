// The single run-time dispatch: from the names of a plan to the types of its parts.
#include "manyclass/train/points/plan.hpp"

#include <array>
#include <concepts>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "manyclass/objective/augment_reduce.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/step/augment_reduce.hpp"
#include "manyclass/step/sgd.hpp"
#include "manyclass/train/common/solvers.hpp"
#include "manyclass/train/points/batch_prox.hpp"
#include "manyclass/train/points/points.hpp"

namespace manyclass {

namespace {

using AnyStep = std::unique_ptr<const PointStep>;

template <class Part>
concept MakesSteps = requires(double carry, RootFinder root) {
  { Part::make(carry, root) } -> std::same_as<AnyStep>;
};

template <class Part>
AnyStep step_of(const Plan& plan) {
  const double carry = carry_of(plan.formulation);
  const auto root = static_cast<RootFinder>(place_of("root", plan.root, root_finder_facts));
  if constexpr (RuleForU<Part>) {
    return point_step(Sgd<DoubleSum<Part>>{{carry, part_with<Part>(plan.options)}});
  } else if constexpr (Objective<Part>) {
    return point_step(Sgd<Part>{part_with<Part>(plan.options)});
  } else if constexpr (Part::facts.has(flag::batch)) {
    throw std::invalid_argument("solver '" + plan.solver + "' steps by batches and not by points");
  } else {
    static_assert(MakesSteps<Part>, "a solver is a rule for u, an objective, or has make(carry, root finder)");
    return Part::make(carry, root);
  }
}

template <class Noise, class Bound>
AnyStep bound_step(const Bound& bound, bool implicit) {
  return implicit ? point_step(BoundImplicit<Noise, Bound>{bound}) : point_step(BoundSgd<Noise, Bound>{bound});
}

// A step of augment and reduce for the noise of type Kind.
template <class Kind>
AnyStep bound_step(const Plan& plan, bool implicit, bool natural) {
  if constexpr (std::is_same_v<Kind, GumbelNoise>) {
    if (!natural) {
      throw std::invalid_argument("local_step is '" + plan.local_step + "'; with noise 'gumbel' it must be 'natural'");
    }
    const MovingAverage average{plan.local_gain};
    return implicit ? point_step(GumbelImplicit{average}) : point_step(Sgd<GumbelBound>{{average}});
  } else {
    using Noise = UtilityNoise<Kind>;
    if (plan.family == nullptr) throw std::invalid_argument("noise '" + plan.noise + "' needs a family of q");
    if (natural) {
      return bound_step<Noise>(NaturalBound<Noise>{plan.family, plan.local_gain}, implicit);
    }
    return bound_step<Noise>(MonteCarloBound<Noise>{plan.family, plan.local_gain}, implicit);
  }
}

const Facts& solver_named(const std::string& name) { return Solvers::facts[place_of("solver", name, Solvers::facts)]; }

// The solvers of augment and reduce.
bool is_implicit_bound(const std::string& solver) {
  const Facts& facts = solver_named(solver);
  if (facts.has(flag::bound)) return facts.has(flag::implicit);
  std::string choices;
  for (const Facts& one : Solvers::facts) {
    if (one.has(flag::bound)) choices.append(choices.empty() ? "'" : ", '").append(one.name).append("'");
  }
  throw std::invalid_argument("solver is '" + solver + "'; it must be one of " + choices);
}

}  // namespace

std::span<const Facts> solver_facts() { return Solvers::facts; }

void check_plan(const Plan& plan) {
  const std::array<Facts, 2> parts{solver_named(plan.solver),
                                   selection_facts[place_of("selection", plan.selection, selection_facts)]};
  check_options(plan.options, parts, "solver '" + plan.solver + "' with selection '" + plan.selection + "'");
}

std::unique_ptr<const PointStep> step_named(const Plan& plan) {
  if (plan.noise.empty()) {
    return with_part<AnyStep>(Solvers{}, "solver", plan.solver, [&]<class Part>() { return step_of<Part>(plan); });
  }
  const bool natural = place_of("local_step", plan.local_step, local_step_facts) == 0;
  const bool implicit = is_implicit_bound(plan.solver);
  return with_part<AnyStep>(Alternatives<NoiseKind>{}, "noise", plan.noise,
                            [&]<class Noise>() { return bound_step<Noise>(plan, implicit, natural); });
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
  AnyStep step = step_named(plan);
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
