// What a caller sees of training: a trainer that makes visits, a stretch of a pass at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/types.hpp"
#include "manyclass/model/linear.hpp"

namespace manyclass {

// The data, the carried values and the model being trained. Classes are given by their position in the order that
// training uses, which is random, so that neighbouring classes are a uniform draw.
template <class Rows>
struct Problem {
  typename Rows::Data x;
  std::span<const Index> labels;  // N
  std::span<const float> x_sq;    // N, ||x_i||^2 without the intercept
  std::span<double> u;            // N
  Linear<Rows> model;
  Index n_classes;
  std::optional<Rows> squares;         // running squares of gradients: the adaptive step is taken
  std::span<float> intercept_squares;  // K, with `squares` and an intercept
  std::span<double> local_scale{};     // N, or empty: see SampledPoint
};

struct Settings {
  std::uint64_t seed = 0;
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
};

struct Stretch {
  int pass;
  double eta;
  double eta_u;
  Index first;  // visits [first, last) of the pass
  Index last;
  // Sum of the losses of the pass so far: continued visit by visit, so that where stretches end changes no bit.
  double loss;
};

struct Progress {
  double loss = 0;                 // sum over the pass's visits so far of log(1 + sum_S alpha e^d), nats
  std::int64_t class_updates = 0;  // rows of W moved, the label's included
  Index diverged_at = -1;          // the point whose step was too large to take; training must stop
};

class Trainer {
 public:
  virtual ~Trainer() = default;
  virtual Progress run(const Stretch& stretch) = 0;
};

// A step that moves its point's scores by more than this many nats has run away: single-precision scores of that size
// are 64 nats apart, so they define no probabilities. Its move is not made.
inline constexpr double runaway = 1e9;

}  // namespace manyclass
