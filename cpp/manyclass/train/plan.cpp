// The registry of parts and the single run-time dispatch.
#include "manyclass/train/plan.hpp"

#include <array>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "manyclass/objective/augment_reduce.hpp"
#include "manyclass/objective/bouchard.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/objective/importance.hpp"
#include "manyclass/objective/nce.hpp"
#include "manyclass/objective/one_vs_each.hpp"
#include "manyclass/objective/softmax.hpp"
#include "manyclass/objective/softplus.hpp"
#include "manyclass/objective/u_rules.hpp"
#include "manyclass/step/augment_reduce.hpp"
#include "manyclass/step/implicit.hpp"
#include "manyclass/step/sgd.hpp"
#include "manyclass/train/batch_prox.hpp"
#include "manyclass/train/points.hpp"

namespace manyclass {

namespace {

using AnyStep = std::unique_ptr<const PointStep>;

template <class Value>
using Named = std::pair<std::string_view, Value>;

// Value of `name` in a list of named values, or an error with the choices.
template <class Value, std::size_t n>
Value choose(const char* what, const std::string& name, const std::array<Named<Value>, n>& choices) {
  std::string message = what;
  message.append(" is '").append(name).append("'; it must be one of");
  for (const auto& [choice, value] : choices) {
    if (choice == name) return value;
    message.append(" '").append(choice).append("',");
  }
  message.pop_back();
  throw std::invalid_argument(message);
}

template <class Value, std::size_t n>
std::vector<std::string> names_of(const std::array<Named<Value>, n>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.emplace_back(choice.first);
  return names;
}

using MakeStep = AnyStep (*)(const Plan&, bool raman, RootFinder);

// Explicit SGD on the double sum with a rule for u.
template <class Rule>
AnyStep double_sum(Rule rule, bool raman) {
  return point_step(Sgd<DoubleSum<Rule>>{{raman ? 1.0 : 0.0, rule}});
}

template <class Objective>
AnyStep sgd(Objective objective) {
  return point_step(Sgd<Objective>{objective});
}

constexpr double augment_reduce_power = 0.9;   // Ruiz et al. 2018, section 4
constexpr double composition_power = 2.0 / 3;  // slower than eta's, as two time scales need
// Those whose draws come from all classes, the label among them.
constexpr std::string_view importance_solver = "is";
constexpr std::string_view noise_solver = "nce";

constexpr std::array<Named<MakeStep>, 16> solvers{{
    {"implicit",
     [](const Plan&, bool raman, RootFinder root) {
       return raman ? point_step(ImplicitRaman{root}) : point_step(ImplicitDoubleSum{root});
     }},
    {"umax", [](const Plan& plan, bool raman, RootFinder) { return double_sum(UMax{plan.delta}, raman); }},
    {"sgd", [](const Plan&, bool raman, RootFinder) { return double_sum(Vanilla{}, raman); }},
    {"exact", [](const Plan&, bool, RootFinder) { return sgd(Softmax{}); }},
    {"css", [](const Plan&, bool, RootFinder) { return sgd(Softmax{}); }},
    {"ema", [](const Plan& plan, bool raman, RootFinder) { return double_sum(MovingAverage{plan.u_gain, 0}, raman); }},
    {"augment_reduce",
     [](const Plan&, bool raman, RootFinder) { return double_sum(MovingAverage{1, augment_reduce_power}, raman); }},
    {"scgd",
     [](const Plan&, bool raman, RootFinder) { return double_sum(MovingAverage{1, composition_power}, raman); }},
    {"scent", [](const Plan&, bool raman, RootFinder) { return double_sum(Scent{}, raman); }},
    {"softplus", [](const Plan& plan, bool, RootFinder) { return sgd(Softplus{plan.u_gain}); }},
    {"bregman", [](const Plan&, bool, RootFinder root) { return point_step(ImplicitBregman{root}); }},
    {"ove", [](const Plan&, bool, RootFinder) { return sgd(OneVsEach{}); }},
    {noise_solver, [](const Plan&, bool, RootFinder) { return sgd(NoiseContrastive{}); }},
    {"negative_sampling", [](const Plan&, bool, RootFinder) { return sgd(NegativeSampling{}); }},
    {importance_solver, [](const Plan&, bool, RootFinder) { return sgd(Importance{}); }},
    {"bouchard", [](const Plan&, bool, RootFinder) { return sgd(Bouchard{}); }},
}};

constexpr double monte_carlo_rate = 0.01;  // Ruiz et al. 2018, section 4

template <class Noise, class Bound>
AnyStep bound_step(Bound bound, bool implicit) {
  return implicit ? point_step(BoundImplicit<Noise, Bound>{bound}) : point_step(BoundSgd<Noise, Bound>{bound});
}

template <class Noise>
AnyStep natural_step(const Plan& plan, bool implicit) {
  return bound_step<Noise>(NaturalBound<Noise>{plan.family, plan.local_floor, augment_reduce_power}, implicit);
}

template <class Noise>
AnyStep monte_carlo_step(const Plan& plan, bool implicit) {
  return bound_step<Noise>(MonteCarloBound<Noise>{plan.family, monte_carlo_rate, augment_reduce_power}, implicit);
}

AnyStep gumbel_step(const Plan& plan, bool implicit) {
  const MovingAverage average{1, augment_reduce_power, plan.local_floor};
  return implicit ? point_step(GumbelImplicit{average}) : sgd(GumbelBound{average});
}

using MakeBoundStep = AnyStep (*)(const Plan&, bool implicit);

struct LocalSteps {
  MakeBoundStep natural, monte_carlo;
};

constexpr std::array<Named<LocalSteps>, 3> noises{{
    {"gumbel", {gumbel_step, nullptr}},
    {"normal", {natural_step<NormalUtility>, monte_carlo_step<NormalUtility>}},
    {"logistic", {natural_step<LogisticUtility>, monte_carlo_step<LogisticUtility>}},
}};

constexpr std::array<Named<MakeBoundStep LocalSteps::*>, 2> local_steps{
    {{"natural", &LocalSteps::natural}, {"monte_carlo", &LocalSteps::monte_carlo}}};

// Those of augment and reduce.
constexpr std::array<Named<bool>, 2> bound_solvers{{{"implicit", true}, {"sgd", false}}};

constexpr std::array<Named<DrawLocal>, 3> local_families{
    {{"normal", draw_normal}, {"logistic", draw_logistic}, {"gumbel", draw_gumbel}}};

constexpr std::array<Named<bool>, 2> formulations{{{"proposed", false}, {"raman", true}}};

constexpr std::array<Named<RootFinder>, 2> root_finders{
    {{"newton", RootFinder::newton}, {"bisection", RootFinder::bisection}}};

struct SelectArguments {
  const Plan& plan;
  Index n_classes;
  std::span<const Index> labels;
  bool with_label;

  Index most(Index limit) const { return std::min(plan.n_negatives, limit); }
};

using MakeSelect = AnySelect (*)(const SelectArguments&);

// Of runs of `width` classes, each with the sum of frequency ^ power over its classes.
std::shared_ptr<const AliasTable> frequency_table(const SelectArguments& a, std::size_t width) {
  std::vector<double> counts(static_cast<std::size_t>(a.n_classes));
  for (const Index y : a.labels) ++counts[static_cast<std::size_t>(y)];
  std::vector<double> weights((counts.size() + width - 1) / width);
  for (std::size_t k = 0; k < counts.size(); ++k) weights[k / width] += std::pow(counts[k], a.plan.power);
  return std::make_shared<const AliasTable>(std::move(weights));
}

constexpr std::array<Named<MakeSelect>, 6> selections{{
    {"block",
     [](const SelectArguments& a) -> AnySelect { return Block{a.n_classes, a.most(a.n_classes), a.with_label}; }},
    {"uniform",
     [](const SelectArguments& a) -> AnySelect {
       return Uniform{a.n_classes, a.most(a.with_label ? a.n_classes : a.n_classes - 1), a.with_label};
     }},
    {"all", [](const SelectArguments& a) -> AnySelect { return AllClasses{a.n_classes, a.with_label}; }},
    {"frequency",
     [](const SelectArguments& a) -> AnySelect {
       return Frequency{frequency_table(a, 1), a.plan.n_negatives, a.with_label};
     }},
    {"frequency_block",
     [](const SelectArguments& a) -> AnySelect {
       const auto width = static_cast<Index>(line_floats);
       return FrequencyBlock{frequency_table(a, line_floats), a.n_classes, (a.plan.n_negatives - 1) / width + 1,
                             a.with_label};
     }},
    {"head_tail",
     [](const SelectArguments& a) -> AnySelect {
       if (a.with_label) {
         throw std::invalid_argument("solver '" + a.plan.solver +
                                     "' draws the label too, which selection 'head_tail' cannot");
       }
       return HeadTail{{a.n_classes, a.most(a.n_classes)}, a.plan.heads, a.plan.head_size};
     }},
}};

}  // namespace

std::unique_ptr<const PointStep> step_named(const Plan& plan) {
  if (!plan.noise.empty()) {
    const MakeBoundStep make = choose("noise", plan.noise, noises).*choose("local_step", plan.local_step, local_steps);
    if (make == nullptr) {
      throw std::invalid_argument("local_step is '" + plan.local_step + "'; with noise 'gumbel' it must be 'natural'");
    }
    if (plan.noise != "gumbel" && plan.family == nullptr) {
      throw std::invalid_argument("noise '" + plan.noise + "' needs a family of q");
    }
    return make(plan, choose("solver", plan.solver, bound_solvers));
  }
  const bool raman = choose("formulation", plan.formulation, formulations);
  const RootFinder root = choose("root", plan.root, root_finders);
  return choose("solver", plan.solver, solvers)(plan, raman, root);
}

AnySelect select_named(const Plan& plan, Index n_classes, std::span<const Index> labels) {
  const auto selection = plan.solver == "exact" ? std::string("all") : plan.selection;
  const bool with_label = plan.solver == importance_solver || plan.solver == noise_solver;
  const SelectArguments arguments{plan, n_classes, labels, with_label};
  return choose("selection", selection, selections)(arguments);
}

std::unique_ptr<Trainer> make_trainer(const Plan& plan, const AnyProblem& any_problem) {
  if (plan.solver == "minibatch_implicit") {  // its step is that of a batch, not of a point
    return std::visit(
        [&]<class Rows>(const Problem<Rows>& problem) -> std::unique_ptr<Trainer> {
          return batch_prox_trainer(problem, plan.n_negatives, plan.settings);
        },
        any_problem);
  }
  AnyStep step = step_named(plan);
  return std::visit(
      [&]<class Rows>(const Problem<Rows>& problem) {
        return std::visit(
            [&]<class Select>(const Select& select) -> std::unique_ptr<Trainer> {
              return points_trainer(problem, select, std::move(step), plan.settings);
            },
            select_named(plan, problem.n_classes, problem.labels));
      },
      any_problem);
}

std::vector<std::string> solver_names() { return names_of(solvers); }
std::vector<std::string> formulation_names() { return names_of(formulations); }
std::vector<std::string> selection_names() { return names_of(selections); }
std::vector<std::string> root_finder_names() { return names_of(root_finders); }
std::vector<std::string> local_step_names() { return names_of(local_steps); }
std::vector<std::string> local_family_names() { return names_of(local_families); }

DrawLocal local_draw_named(const std::string& family) { return choose("local_family", family, local_families); }

}  // namespace manyclass
