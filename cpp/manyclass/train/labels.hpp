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
#include "manyclass/train/class_source.hpp"
#include "manyclass/train/trainer.hpp"

namespace manyclass {

struct LabelProblem {
  FeatureMap map;
  Excluded labels;  // a list for each point, none empty
  VectorRows classes;
  std::span<const double> weights{};  // of the points, positive with mean 1, or empty: all are 1
  std::span<double> local{};          // what points carry between visits, for steps of the double sum; or empty
  std::span<const double> counts{};   // of points of each class, or empty: those of these points
};

// Throws std::invalid_argument where points, labels, embeddings and classes do not fit each other.
void check(const LabelProblem& problem);

// Where a point's classes come from, by name: "exact", "sampled", "mips" (by a ClusterIndex), "decomposed" or "messages"
// (by a DecomposedIndex).
struct SourceChoice {
  std::string name = "exact";
  std::string selection = "uniform";  // what "sampled" draws by
  Index n_negatives = 1;
  Options options{};       // the selection's own numbers
  bool log_alpha = false;  // the log of a class's weight is added to its score
  bool share = false;      // the points of a batch have one sample in common
  std::variant<std::monostate, ClusterIndex*, DecomposedIndex*> index{};
  Index budget = 1, n_probe = 1;
  MessageOptions messages{};  // of "messages"
};

std::unique_ptr<ClassSource> class_source(const SourceChoice& choice, const LabelProblem& problem,
                                          const SourceSettings& settings);

// Of the settings, the seed, the threads, the batch (steps of a batch are added), whether visits are shuffled and
// classes shared, and the instruction set have an effect.
//
// In a Stretch, eta is the step size of the classes' rows, eta_u that of the embeddings. Progress counts the sum of the
// points' losses.
std::unique_ptr<Trainer> label_trainer(const LabelProblem& problem, std::unique_ptr<ClassSource> source,
                                       const Settings& settings);

}  // namespace manyclass
