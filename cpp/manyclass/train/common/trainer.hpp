// What a caller sees of training: a trainer that makes visits, a stretch of a pass at a time; see loop.hpp.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/types.hpp"
#include "manyclass/model/linear.hpp"
#include "manyclass/train/common/curvature.hpp"

namespace manyclass {

// What the adaptive step keeps of each weight (weights/adapt.hpp).
template <class Rows>
struct Adaptive {
  Rows squares;  // running squares of gradients
  std::span<float> intercept_squares;
  std::optional<Rows> gradients{};  // the sum of a batch's, where there are batches; 0 between them
  std::span<float> intercept_gradients{};
};

// What is known of the classes that are in no place here, where a problem is that of a block of all classes. A point
// whose label is elsewhere has the label -1. v of Raman's form is that of all classes.
struct Elsewhere {
  std::span<const double> log_sums;  // N, log of the sum of e^z over the classes elsewhere
  double n_points;                   // with labels elsewhere, beside those that `counts` are of
};

// The data, the carried values and the model being trained. Classes are given by their position in the order that
// training uses, which is random, so that neighbouring classes are a uniform draw.
//
// The objective has the mean of weight_i loss_i. What a point carries is its own, and the best that it can be does not
// depend on the weight: it moves as with weight 1, which is how it moves in each of as many copies of the point.
template <class Rows>
struct Problem {
  typename Rows::Data x;
  std::span<const Index> labels;  // N
  std::span<const float> x_sq;    // N, ||x_i||^2 without the intercept
  std::span<double> u;            // N
  Linear<Rows> model;
  Index n_classes;
  std::optional<Adaptive<Rows>> adaptive{};  // given: the adaptive step is taken
  std::span<double> local_scale{};           // N, or empty: see SampledPoint
  std::span<const double> weights{};         // N, positive with mean 1, or empty: all are 1
  std::span<const double> counts{};          // K, of points of each class, or empty: those of these points
  std::optional<Elsewhere> elsewhere{};      // given: these are a block of the classes
  std::optional<Curvature> curvature{};      // given: step sizes fall by it
};

struct Settings {
  std::uint64_t seed = 0;
  std::uint64_t first_point = 0;  // number of the first point among all that the model has seen: draws are named by it
  int n_threads = 1;
  Index batch = 1;  // points that see the same weights; above 1, threads share a batch and stay deterministic
  bool mean_of_batch = false;  // the step of a batch is the mean of its points' steps, not their sum
  bool share_classes = false;  // the points of a batch see the same selected classes
  bool hogwild = false;        // threads race on W
  bool shuffle = true;         // visit in random order, or in file order
  Isa isa = Isa::baseline;
  double ridge = 0;  // alpha: the objective has alpha/2 ||W||^2 beside the mean loss
  // Projections of Fagan & Iyengar 2018, Lemma 1-2: u to [0, u_max] and every w_k to the ball of this radius.
  double u_max = std::numeric_limits<double>::infinity();
  double max_norm = std::numeric_limits<double>::infinity();
  std::span<double> norm_sq;  // K, ||w_k||^2, kept while max_norm is finite
  // What points carry is u + carry z_y (objective/double_sum.hpp). Where it is NaN, see first_u.hpp.
  double carry = 0;
  bool exact_first_u = false;
  // Of the adaptive step: `decay` multiplies its rate after every so many iterations; 0: never within a pass.
  Offset decay_every = 0;
  // Step sizes are divided by 1 + floor(batches made before / this), with several labels or embeddings; 0: are not.
  Offset inverse_every = 0;
  double decay = 1;
};

// The visits [first, last) of a pass, or as many of them as `seconds` suffice for: to points, or to sentences of a
// text.
struct Stretch {
  int pass;
  double eta;    // of W; for sentences at the first token of the pass, from where it falls linearly
  double eta_u;  // of u, or of embeddings
  Offset first;
  Offset last;
  // Sum of the losses of the pass so far: continued visit by visit, so that where stretches end changes no bit.
  double loss = 0;
  double eta_end = 0;  // of W behind the last token of the pass; for sentences only
  double seconds = std::numeric_limits<double>::infinity();
};

struct Progress {
  Offset visits = 0;               // made, from the first of the stretch on
  double loss = 0;                 // sum over the pass's visits so far of log(1 + sum_S alpha e^d), nats
  std::int64_t class_updates = 0;  // rows of W moved, the labels' included
  Index diverged_at = -1;          // the point whose step was too large to take; training must stop
  // Of sentences only, whose loss is that of `loss_pairs`.
  Offset tokens = 0;  // before sub-sampling
  Offset pairs = 0;
  Offset loss_pairs = 0;  // of them, those whose loss was taken
  Offset refused = 0;     // pairs whose step was too large to take

  // Adds what another thread has made.
  Progress& operator+=(const Progress& other) {
    loss += other.loss;
    class_updates += other.class_updates;
    tokens += other.tokens;
    pairs += other.pairs;
    loss_pairs += other.loss_pairs;
    refused += other.refused;
    return *this;
  }
};

class Trainer {
 public:
  virtual ~Trainer() = default;
  // Throws std::invalid_argument for a stretch that is none of a pass.
  virtual Progress run(const Stretch& stretch) = 0;
};

// A step that moves its point's scores by more than this many nats has run away: single-precision scores of that size
// are 64 nats apart, so they define no probabilities. Its move is not made.
inline constexpr double runaway = 1e9;

}  // namespace manyclass
