// From names to types: the list of all solvers, and trainers made from a plan.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>

#include "manyclass/core/facts.hpp"
#include "manyclass/objective/augment_reduce.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/select/any_select.hpp"
#include "manyclass/step/point_step.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/weights/class_rows.hpp"
#include "manyclass/weights/feature_rows.hpp"

namespace manyclass {

struct Plan {
  std::string solver = "implicit";
  Formulation formulation = "proposed";
  std::string selection = "block";
  std::string root = "newton";
  std::string partition = "fixed";  // of solvers that step by batches
  Index n_negatives = 16;
  Options options{};             // own parameters of the solver and the selection
  Index head_size = 0;           // for selection "head_tail"
  std::span<const Index> heads;  // N x head_size
  // Augment and reduce with noise of this name; empty: `solver` says which step is made.
  std::string noise;
  std::string local_step = "natural";
  Gain local_gain;                              // of q
  std::shared_ptr<const LocalFamily> family{};  // of q; not for Gumbel noise
  std::string bound = "augment_reduce";         // of a posterior of W: that, or "one_vs_each" for the softmax
  Settings settings;
};

using AnyProblem = std::variant<Problem<FeatureRows<float>>, Problem<ClassRows<float>>>;

// Facts of all solvers; those with flag::batch are no steps of single points and use no selection.
std::span<const Facts> solver_facts();
const Facts& solver_named(const std::string& name);

// Throws std::invalid_argument for a name that is not listed, an option that belongs to neither the solver nor the
// selection, or a value outside its range.
void check_plan(const Plan& plan);

// Checks the plan. Throws std::invalid_argument for a combination that does not exist, too.
std::unique_ptr<Trainer> make_trainer(const Plan& plan, const AnyProblem& problem);

// The parts that make_trainer puts together; each throws as it does. `labels` are what frequencies are counted from,
// where `counts` are not given.
std::unique_ptr<const PointStep> step_named(const Plan& plan);
AnySelect select_named(const Plan& plan, Index n_classes, std::span<const Index> labels,
                       std::span<const double> counts = {});

}  // namespace manyclass
