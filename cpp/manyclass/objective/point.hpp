// The contract of a point: what objectives, losses and steps see of it, and what they answer.
//
// A point has labels P, one or several, and S, other classes that a selection draws or a search finds. All that a step
// reads are the scores z_k = w_k.phi of P and S, the weights alpha of S (the sum over S of alpha g estimates the
// sum of g over all wrong classes), |phi|^2, step sizes and what the point carries between visits. All that it answers
// are coefficients p: w_k moves by p_k phi, and a phi that is learned by the sum of p_k w_k. Nothing here knows data,
// weights or threads, so that every part can be tested on a handful of numbers.
//
// There are two views of a point. SampledPoint has one label, alpha beside the scores, and the state of u: the label's
// coefficient is a double, which steps of u and proximal steps go on computing with. LabelScores has any number of
// labels, and log alpha added to its scores by the source (train/minibatches/sampled_source.cpp), for losses that know
// no weight. The second for both would cost the softmax's gradient of one label and 16 classes 181 ns instead of 139
// (one thread, AVX-512), 4 % of the 1.0 us that such a step takes on yso-en.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <span>
#include <vector>

#include "manyclass/core/facts.hpp"
#include "manyclass/core/rng.hpp"

namespace manyclass {

struct SampledPoint {
  std::span<const float> scores;   // z_k, k in S
  std::span<const float> alpha;    // inclusion weights; 0 marks a class that does not count (the label in its block)
  double label_score;              // z_y
  double x_sq;                     // what a move of w_y by x adds to z_y: ||x||^2, with 1 for the intercept
  double eta;                      // step size of W
  double eta_u;                    // step size of u
  int visits = 0;                  // how often this point was visited before
  float label_alpha = 1;           // inclusion weight that the label would have, were it a wrong class
  std::span<const float> x_sqs{};  // as x_sq for each k in S; empty: x_sq for all (no ridge)
  std::span<const float> times{};  // how often k was drawn; empty: once
  double* local_scale = nullptr;   // scale of q, beside u, its location (augment and reduce)
  RngKey key{};                    // of this visit's own draws
  std::uint64_t item = 0;
  double others = -std::numeric_limits<double>::infinity();  // log-sum of the scores of classes in other blocks
  bool labelled = true;                                      // whether the label is a class of this block

  std::size_t size() const { return scores.size(); }
  // How often each class was drawn, in an array of its own: a loop that looked here for each would not be vectorised.
  void write_counts(std::span<float> counts) const {
    if (times.empty()) {
      std::fill_n(counts.begin(), size(), 1.0F);
    } else {
      std::copy_n(times.begin(), size(), counts.begin());
    }
  }
};

// The moves of one step, beside p_k written by the step: w_k -= p_k x for k in S, w_y += label x.
struct Move {
  double label;
  double total;  // sum of |p_k|: what tells that a step ran away
  double loss;   // log(1 + sum_S alpha e^d), the loss of the point as this selection shows it, in nats
};

// What an explicit step multiplies by the step sizes.
struct Gradient {
  double label;  // of -z_y
  double u;
  double loss;  // as in Move
  double total;
};

// An objective is a small value with
//
//   Gradient gradient(const SampledPoint& point, double& u, std::span<float> g) const
//
// which writes df/dz_k of the selected classes to `g`, of their number, and returns df/d(-z_y), df/du, and the loss. It
// may move u, the number that the point carries between visits, before the gradient is taken; it reads nothing but the
// point, and keeps nothing. Its parameters are its first members, in the order of its facts.
template <class T>
concept Objective = requires(const T objective, const SampledPoint& point, double& u, std::span<float> g) {
  { objective.gradient(point, u, g) } -> std::same_as<Gradient>;
};

// P are the point's labels, all of them listed; of the wrong classes some are listed, and `rest` others count as having
// one common score, or not at all where rest is 0 (Yen et al. 2018, Algorithm 1, takes the score 0 for classes that a
// search has not found; a mask leaves them out).
struct LabelScores {
  std::span<const float> positives;  // z_k, k in P; not empty
  std::span<const float> negatives;  // z_k of listed wrong classes, in any order
  double rest = 0;                   // number of wrong classes that are not listed,
  float rest_score = 0;              // and the score of each
};

struct LabelGradient {
  std::span<float> positives;
  std::span<float> negatives;
  double rest = 0;  // of each class of the rest
};

// Room that losses need, kept between calls.
struct LossMemory {
  std::vector<float> floats;
  std::vector<float> more_floats;
  std::vector<double> doubles;
};

// A loss of labels is a small value with facts and
//
//   double operator()(const LabelScores& z, LabelGradient& g, LossMemory& memory) const
//   bool top_is_enough(const LabelGradient& g) const
//
// The first returns L(z, P) and writes dL/dz_k of every class. The second says whether the gradient g of the highest
// wrong classes alone is that of all wrong classes. Its parameters are its first members, in the order of its facts.
template <class Loss>
concept LossOfLabels = requires(const Loss loss, const LabelScores& z, LabelGradient& g, LossMemory& memory) {
  { Loss::facts } -> std::convertible_to<Facts>;
  { loss(z, g, memory) } -> std::same_as<double>;
  { loss.top_is_enough(g) } -> std::same_as<bool>;
};

}  // namespace manyclass
