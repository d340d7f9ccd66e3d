// The steps of points with one label, by name: the one place where they are compiled.
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
#include "manyclass/train/points/plan.hpp"

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
    TermsOfBound terms = natural ? terms_of(NaturalBound<Noise>{plan.family, plan.local_gain})
                                 : terms_of(MonteCarloBound<Noise>{plan.family, plan.local_gain});
    if (!implicit) return std::make_unique<BoundStep<BoundSgd>>(std::move(terms));
    return std::make_unique<BoundStep<BoundImplicit<Noise::convex_hazard>>>(std::move(terms));
  }
}

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

const Facts& solver_named(const std::string& name) { return Solvers::facts[place_of("solver", name, Solvers::facts)]; }

std::unique_ptr<const PointStep> step_named(const Plan& plan) {
  if (plan.noise.empty()) {
    return with_part<AnyStep>(Solvers{}, "solver", plan.solver, [&]<class Part>() { return step_of<Part>(plan); });
  }
  const bool natural = place_of("local_step", plan.local_step, local_step_facts) == 0;
  const bool implicit = is_implicit_bound(plan.solver);
  return with_part<AnyStep>(Alternatives<NoiseKind>{}, "noise", plan.noise,
                            [&]<class Noise>() { return bound_step<Noise>(plan, implicit, natural); });
}

}  // namespace manyclass
