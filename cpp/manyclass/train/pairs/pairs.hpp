// Training of weights on a support: the loss and its gradient are exact, over all K classes, and Adagrad moves the
// weights in the pairs of a row's features.
//
// A margin is over the labels and the classes that the row meets. Its gradient is that of the highest wrong classes
// alone, and a class that is not met has no score but its intercept, which rises with its rows: frequent classes are
// met by nearly all rows.
//
// A visit costs what the row meets: the classes in its features' pairs, and its labels. The others are those of
// unmet_classes.hpp, which moves their intercepts seldom and all at once.
//
// Points of a batch see the same weights. Every thread takes a share of the points to their gradients, then moves the
// weights of its own classes point by point: the result is the same for any number of threads. With `hogwild` threads
// visit points alone and race on the weights.
#pragma once

#include <memory>
#include <span>

#include "manyclass/objective/label_loss.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/train/pairs/unmet_classes.hpp"
#include "manyclass/weights/pair_rows.hpp"

namespace manyclass {

struct PairsProblem {
  CsrView x;
  Excluded labels;  // a list for each point, none empty
  Support support;
  std::span<float> values;     // of the support
  std::span<float> intercept;  // K; learned unless its squares are empty
  Squares squares, intercept_squares;
  std::span<const double> weights{};  // of the points, positive with mean 1, or empty: all are 1
  LabelLoss loss;
  // Gradients smaller than this are rounded to 0 or to it, at random and without bias, before the weights move: of
  // 26,000 classes some hundreds are left.
  float rounding = 0;

  Index n_classes() const { return static_cast<Index>(intercept.size()); }
};

// Throws std::invalid_argument where the parts of the problem do not fit each other.
//
// A stretch whose time is up ends behind a span of visits (unmet_classes.hpp), 64 or a 256th of the classes.
//
// Of the settings, the seed, the threads, the batch, hogwild, whether visits are shuffled, the ridge of the weights and
// the instruction set have an effect. In a Stretch, eta is the rate of the weights, eta_u that of the intercepts.
// Progress counts the sum of the points' losses.
std::unique_ptr<Trainer> pairs_trainer(const PairsProblem& problem, const Settings& settings);

}  // namespace manyclass
