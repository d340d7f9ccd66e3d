// One pass over choosers and the alternatives of each: losses, gradients by what utilities are made of, probabilities,
// and covariances of features, all of which are in double precision.
#pragma once

#include <span>
#include <string>

#include "manyclass/choice/rows.hpp"
#include "manyclass/core/simd.hpp"

namespace manyclass {

// `model` is "gumbel", "normal", "logistic" or "nested"; or, with alternatives that were drawn, "drawn", "drawn_normal"
// or "drawn_logistic".
struct ChoiceModel {
  std::string model = "gumbel";
  std::span<const Index> nests;             // of the alternatives; of "nested"
  std::span<const double> dissimilarity;    // of the nests, in ]0, inf[
  std::span<const double> log_normalizers;  // of the rows; of "drawn"
  std::span<const double> node_weights;     // n x NoiseNodes::size, or empty; of the other drawn ones
};

// What is filled in; those left empty are left out. Gradients of a row are multiplied by its weight.
struct ChoiceSums {
  std::span<double> losses;             // n, in nats, without weights
  std::span<double> inclusive_values;   // n
  std::span<double> taste_gradient;     // n x q
  std::span<double> pair_gradient;      // n x r
  std::span<double> constant_gradient;  // K, added over rows
  std::span<double> nest_gradient;      // n x number of nests
  std::span<double> probabilities;      // of the members of the sets, row after row; then no choice is needed
  std::span<double> covariances;        // n x (q + r)^2: second derivatives of losses by coefficients of z and s, which
                                        // for Gumbel noise are covariances under its probabilities, without a choice
  std::span<double> log_products;       // n x NoiseNodes::size, of "drawn_normal" and "drawn_logistic"
};

struct ChoiceQuestion {
  ChoiceRows rows;
  ChoiceModel model;
  std::span<const Index> chosen;    // n; empty where only probabilities, inclusive values and covariances are asked for
  std::span<const double> weights;  // n, or empty
  std::size_t first = 0;            // what the first row is called in messages
  int n_threads = 1;
  Isa isa = best_isa();
};

// Results are the same for any number of threads. Throws std::invalid_argument where sizes do not fit, or where a row
// has chosen what it could not.
void choice_sums(const ChoiceQuestion& question, const ChoiceSums& sums);

}  // namespace manyclass
