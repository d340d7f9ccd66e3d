// Training for points with one or several labels over dense features or embeddings: minibatches, any loss over scores.
//
// Points of a batch see the same weights. Every thread takes a share of the points to their gradients, then moves its
// own rows of W and of the embeddings along the sums of the gradients: the result is the same for any number of
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "manyclass/model/feature_map.hpp"
#include "manyclass/train/class_source.hpp"
#include "manyclass/train/trainer.hpp"

namespace manyclass {

struct LabelProblem {
  FeatureMap map;
  Excluded labels;  // a list for each point, none empty
  VectorRows classes;
};

struct LabelSettings {
  std::uint64_t seed = 0;
  int n_threads = 1;
  Index batch = 1;  // points that see the same weights; their steps are added
  bool shuffle = true;
  bool share = false;  // draws of all points of a batch are named by its first one
  Isa isa = Isa::baseline;
};

// In a Stretch, eta is the step size of the classes' rows, eta_u that of the embeddings. Progress counts the sum of the
// points' losses.
std::unique_ptr<Trainer> label_trainer(const LabelProblem& problem, std::unique_ptr<ClassSource> source,
                                       const LabelSettings& settings);

}  // namespace manyclass
