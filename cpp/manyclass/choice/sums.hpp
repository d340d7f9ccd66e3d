// One pass over choosers and the alternatives of each: losses, gradients by what utilities are made of, and
// covariances of features, all of which are in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "manyclass/choice/problem.hpp"

namespace manyclass {

// What is filled in for the n rows of a piece; those left empty are left out. Gradients of a row are multiplied by its
// weight. Losses, gradients and products need what was chosen.
struct ChoiceSums {
  std::span<double> losses;             // n, in nats, without weights
  std::span<double> inclusive_values;   // n
  std::span<double> taste_gradient;     // n x width
  std::span<double> pair_gradient;      // n x r
  std::span<double> constant_gradient;  // K, added over rows
  std::span<double> nest_gradient;      // n x number of nests
  std::span<double> covariances;   // n x (width + r)^2: second derivatives of losses by coefficients of z and s, which
                                   // for Gumbel noise are covariances under its probabilities
  std::span<double> log_products;  // n x NoiseNodes::size, of normal or logistic noise: see AugmentedChoice
};

// What rows carry whose alternatives were drawn, so that their gradients are linear in the sums that draws estimate.
//
// Of Gumbel noise the double sum w + e^-w A - 1 (Fagan & Iyengar 2018, eq. 5) with the log-normaliser w of the row,
// whose least value is log A at w = log A: its gradient is that of log A times e^-w A. This is the sum of
// objective/double_sum, here in double precision and over lists of a row's own, so that it is a factor of the row.
struct CarriedByRows {
  std::span<const double> log_normalizers;  // of all rows, or empty
  std::span<const double> node_weights;     // n x NoiseNodes::size, or empty
};

// e^x of a loss less what its row carries, which must not overflow where steps have gone far.
inline double growth(double x) { return std::exp(std::min(x, 300.0)); }

// Results are the same for any number of threads. Throws std::invalid_argument where a row has chosen what it could
// not.
void choice_sums(const ChoiceProblem& problem, const ChoiceParts& parts, const ChoicePiece& piece,
                 const ChoiceSums& sums, const CarriedByRows& carried = {});

}  // namespace manyclass
