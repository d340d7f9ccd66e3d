// The registry of parts and the single run-time dispatch.
#include "manyclass/train/plan.hpp"

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "manyclass/objective/double_sum.hpp"
#include "manyclass/objective/softmax.hpp"
#include "manyclass/objective/u_rules.hpp"
#include "manyclass/step/implicit.hpp"
#include "manyclass/step/sgd.hpp"
#include "manyclass/train/epoch.hpp"

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

constexpr std::array<Named<MakeStep>, 4> solvers{{
    {"implicit",
     [](const Plan&, bool raman, RootFinder root) -> AnyStep {
       if (raman) return point_step(ImplicitRaman{root});
       return point_step(ImplicitDoubleSum{root});
     }},
    {"umax",
     [](const Plan& plan, bool raman, RootFinder) -> AnyStep {
       return point_step(Sgd<DoubleSum<UMax>>{{raman ? 1.0 : 0.0, {plan.delta}}});
     }},
    {"sgd",
     [](const Plan&, bool raman, RootFinder) -> AnyStep {
       return point_step(Sgd<DoubleSum<Vanilla>>{{raman ? 1.0 : 0.0, {}}});
     }},
    {"exact", [](const Plan&, bool, RootFinder) -> AnyStep { return point_step(Sgd<Softmax>{}); }},
}};

constexpr std::array<Named<bool>, 2> formulations{{{"proposed", false}, {"raman", true}}};

constexpr std::array<Named<RootFinder>, 2> root_finders{
    {{"newton", RootFinder::newton}, {"bisection", RootFinder::bisection}}};

using MakeSelect = AnySelect (*)(Index n_classes, Index n_negatives);

constexpr std::array<Named<MakeSelect>, 3> selections{{
    {"block", [](Index k, Index m) -> AnySelect { return Block{k, std::min(m, k)}; }},
    {"uniform", [](Index k, Index m) -> AnySelect { return Uniform{k, std::min(m, k - 1)}; }},
    {"all", [](Index k, Index) -> AnySelect { return AllClasses{k}; }},
}};

}  // namespace

std::unique_ptr<const PointStep> step_named(const Plan& plan) {
  const bool raman = choose("formulation", plan.formulation, formulations);
  const RootFinder root = choose("root", plan.root, root_finders);
  return choose("solver", plan.solver, solvers)(plan, raman, root);
}

AnySelect select_named(const Plan& plan, Index n_classes) {
  const auto selection = plan.solver == "exact" ? std::string("all") : plan.selection;
  return choose("selection", selection, selections)(n_classes, plan.n_negatives);
}

std::unique_ptr<Trainer> make_trainer(const Plan& plan, const AnyProblem& any_problem) {
  AnyStep step = step_named(plan);
  const Index n_classes = std::visit([](const auto& problem) { return problem.n_classes; }, any_problem);
  const AnySelect any_select = select_named(plan, n_classes);
  return std::visit(
      [&]<class Rows, class Select>(const Problem<Rows>& problem, const Select& select) -> std::unique_ptr<Trainer> {
        return std::make_unique<Epoch<Rows, Select>>(problem, select, std::move(step), plan.settings);
      },
      any_problem, any_select);
}

std::vector<std::string> solver_names() { return names_of(solvers); }
std::vector<std::string> formulation_names() { return names_of(formulations); }
std::vector<std::string> selection_names() { return names_of(selections); }
std::vector<std::string> root_finder_names() { return names_of(root_finders); }

}  // namespace manyclass
