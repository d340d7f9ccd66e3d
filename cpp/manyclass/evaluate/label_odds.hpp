// Log-losses of rows of scores with labels, and what calibrates the probabilities of several labels.
//
// The softmax gives label k the log-probability v_k = z_k - log sum_j e^{z_j}. Where a row has several labels, the
// probability that k is among them is P_k = 1 / (1 + e^-(v_k / T + c)) (Platt), or e^{v_k} where nothing is calibrated.
#pragma once

#include <span>

#include "manyclass/core/lists.hpp"
#include "manyclass/core/simd.hpp"

namespace manyclass {

struct LabelOdds {
  std::span<const float> scores;  // rows of n_classes each
  std::size_t n_classes = 0;
  Excluded labels;                  // of each row, none or some
  double temperature = 0;           // T; 0: nothing is calibrated
  double offset = 0;                // c
  double lowest = 0;                // of v: the bins of `counts` divide [lowest, 0]
  std::span<const double> weights;  // of the rows, for `counts`
  int n_threads = 1;
  Isa isa{};

  std::size_t size() const { return labels.indptr.size() - 1; }
};

// Where the results go; no numbers: not asked for.
struct LabelOddsSums {
  std::span<double> log_losses;  // the mean of -v over the labels of each row, 0 where it has none
  // The mean over all classes of -log P_k of a label and -log (1 - P_k) of another class.
  std::span<double> label_losses;
  std::span<double> own;     // v of each label, row after row
  std::span<double> counts;  // the weights of wrong classes by bins of v are added here
};

// Throws std::invalid_argument where labels or sizes do not fit.
void label_odds(const LabelOdds& question, const LabelOddsSums& sums);

// What tells the two numbers of Platt's scaling P = 1 / (1 + e^-(a v + c)).
struct PlattQuestion {
  double lowest = 0;                // of v: the bins divide [lowest, 0]
  std::span<const double> counts;   // the weights of wrong classes by bins of v
  std::span<const double> own;      // v of each label
  std::span<const double> weights;  // of the labels
  double n_rows = 0;                // the weights of the rows in all
  double most_factor = 0;           // a is in [1 / most, most]
  double most_offset = 0;           // |c| is at most that
};

struct PlattScaling {
  double factor, offset;  // a, c
  double loss;            // the sum over all rows and classes of -log P of a label and -log (1 - P) of another class
};

// The numbers of least loss, which is convex in them.
PlattScaling platt_scaling(const PlattQuestion& question);

}  // namespace manyclass
