// From names to types: the one place that lists which solvers, selections and storages there are.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "manyclass/objective/augment_reduce.hpp"
#include "manyclass/select/all_classes.hpp"
#include "manyclass/select/block.hpp"
#include "manyclass/select/frequency.hpp"
#include "manyclass/select/frequency_block.hpp"
#include "manyclass/select/head_tail.hpp"
#include "manyclass/select/uniform.hpp"
#include "manyclass/step/point_step.hpp"
#include "manyclass/train/trainer.hpp"
#include "manyclass/weights/class_rows.hpp"
#include "manyclass/weights/feature_rows.hpp"

namespace manyclass {

struct Plan {
  std::string solver = "implicit";
  std::string formulation = "proposed";
  std::string selection = "block";
  std::string root = "newton";
  Index n_negatives = 16;
  double delta = 1;              // U-max
  double u_gain = 0.5;           // of "ema" and "softplus"
  double power = 0.75;           // of the class frequency, for selections by frequency
  Index head_size = 0;           // for selection "head_tail"
  std::span<const Index> heads;  // N x head_size
  // Augment and reduce with noise of this name; empty: `solver` says which step is made.
  std::string noise;
  std::string local_step = "natural";
  double local_floor = 0;                       // of the gain of q
  std::shared_ptr<const LocalFamily> family{};  // of q; not for Gumbel noise
  Settings settings;
};

using AnyProblem = std::variant<Problem<FeatureRows<float>>, Problem<ClassRows<float>>>;

// Knows "minibatch_implicit" too, which is no solver of single points and uses no selection.
// Throws std::invalid_argument for a name that is not listed or a combination that does not exist.
std::unique_ptr<Trainer> make_trainer(const Plan& plan, const AnyProblem& problem);

// The parts that make_trainer puts together; each throws as it does. `labels` are what frequencies are counted from.
using AnySelect = std::variant<AllClasses, Block, Uniform, Frequency, FrequencyBlock, HeadTail>;
std::unique_ptr<const PointStep> step_named(const Plan& plan);
AnySelect select_named(const Plan& plan, Index n_classes, std::span<const Index> labels);

// The names that make_trainer knows; solvers of single points only.
std::vector<std::string> solver_names();
std::vector<std::string> formulation_names();
std::vector<std::string> selection_names();
std::vector<std::string> root_finder_names();
std::vector<std::string> local_step_names();
std::vector<std::string> local_family_names();

// How to draw from the standard member of a family of q.
using DrawLocal = double (*)(Rng&);
DrawLocal local_draw_named(const std::string& family);

}  // namespace manyclass
