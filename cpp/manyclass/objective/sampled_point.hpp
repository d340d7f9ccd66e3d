// What a step sees of one data point, and what it answers: a handful of floats, testable without data or threads.
#pragma once

#include <concepts>
#include <span>

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

  std::size_t size() const { return scores.size(); }
  float count(std::size_t k) const { return times.empty() ? 1.0F : times[k]; }
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

}  // namespace manyclass
