// Training for points with one or several labels over dense features or embeddings: minibatches, any loss over scores.
//
// Points of a batch see the same weights. Every thread takes a share of the points to their gradients, then moves its
// own rows of W and of the embeddings along the sums of the gradients: the result is the same for any number of
// threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>

#include "manyclass/model/feature_map.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/train/minibatches/class_source.hpp"
#include "manyclass/train/minibatches/label_steps.hpp"

namespace manyclass {

struct LabelProblem {
  FeatureMap map;
  Excluded labels;  // a list for each point, none empty
  LabelWeights classes;
  std::span<const double> weights{};  // of the points, positive with mean 1, or empty: all are 1
  std::span<double> local{};          // what points carry between visits, for steps of the double sum; or empty
  std::span<const double> counts{};   // of points of each class, or empty: those of these points
  double embedding_ridge = 1;         // the ridge of embeddings over that of the classes' rows, > 0
};

// Throws std::invalid_argument where points, labels, embeddings and classes do not fit each other.
void check(const LabelProblem& problem);

// Where a point's classes come from, by name: "exact", "sampled", "mips" (by a ClusterIndex), "decomposed" or
// "messages" (by a DecomposedIndex).
struct SourceChoice {
  std::string source = "exact";
  std::string selection = "uniform";  // what "sampled" draws by
  Index n_negatives = 1;
  Options options{};       // the selection's own numbers
  bool log_alpha = false;  // the log of a class's weight is added to its score
  std::variant<std::monostate, ClusterIndex*, DecomposedIndex*> index{};
  Index budget = 1, n_probe = 1;
  bool fill = false;          // see SearchOptions
  MessageOptions messages{};  // of "messages"
};

struct LabelPlan {
  std::string loss = "cross_entropy";
  double smoothing = 0;   // of the margin
  bool implicit = false;  // the margin's proximal step instead of its gradient
  SourceChoice source{};
  LabelStepChoice step{};  // where it has a rule: the double sum instead of the loss,
  double local_step = 1;   // and the step size for what points carry, in units of eta
  Settings settings{};
};

std::unique_ptr<Trainer> label_trainer(const LabelProblem& problem, const LabelPlan& plan);

// Of the settings, the seed, the threads, the batch (steps of a batch are added), whether visits are shuffled and
// classes shared, the ridge, which is of the embeddings, too, and the instruction set have an effect. Throws
// std::invalid_argument for a ridge with a search.
//
// In a Stretch, eta is the step size of the classes' rows, eta_u that of the embeddings. Progress counts the sum of the
// points' losses.
std::unique_ptr<Trainer> label_trainer(const LabelProblem& problem, std::unique_ptr<ClassSource> source,
                                       const Settings& settings);

}  // namespace manyclass
