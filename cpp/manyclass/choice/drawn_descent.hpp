// Descent on the loss of rows with drawn alternatives, whose gradient has no bias in their sums.
//
// A row carries the log-normaliser u_i of its sum A_i over alternatives, and the objective is the mean of u_i + e^-u_i
// A_i - 1 (Fagan & Iyengar 2018, eq. 5), linear in the sum. Of noise other than Gumbel's it is the bound of augment and
// reduce (Ruiz et al. 2018), linear in a sum over alternatives, too: a row carries the weights of 48 nodes of its
// noise, where that bound is the log-loss itself (drawn_rules.hpp). Steps are in a metric T T', near the inverse of the
// second derivatives, and fall with their number t as t^-0.7. u_i moves after each visit towards the log of the visit's
// own estimate by a falling share (drawn_sums.hpp). What is found are means over the second half of the passes.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "manyclass/choice/drawn_sums.hpp"
#include "manyclass/choice/free.hpp"
#include "manyclass/choice/problem.hpp"

namespace manyclass {

struct DrawnDescentStart {
  FreeCoefficients free;
  std::vector<double> own;     // free coefficients to begin with
  std::vector<double> metric;  // T: a matrix of the free ones, or its diagonal
  std::vector<double> ridge;   // of all coefficients
  std::size_t n_rows = 0;
  double n_steps = 0;  // that are taken to have been made before, in falling step sizes
  std::string noise = "gumbel";
};

class DrawnDescent {
 public:
  // Throws std::invalid_argument where sizes do not fit.
  explicit DrawnDescent(DrawnDescentStart start);

  // Takes in estimates of the sums of rows, `visits` of which there were before, without a step.
  void look(std::span<const Index> rows, const ChoiceProblem& problem, int visits);
  // Makes a step by some rows, and takes in their estimates.
  void step(std::span<const Index> rows, const ChoiceProblem& problem, int visits);
  // Ends a pass; returns its loss.
  double end_pass();

  // Means over the passes of the second half, and the variances of these means; the descent then stands there.
  std::vector<double> average_passes();
  // By how much the weights e^-u_i A_i of rows vary, of two independent estimates for each: the mean of their products
  // less the product of their means, at least 0.
  double variance_of_weights(std::span<const Index> rows, const ChoiceProblem& one, const ChoiceProblem& other,
                             int visits) const;
  // Of noise other than Gumbel's: by how much noise of what these rows carry moves the coefficients, all rows being
  // taken to be like them, from half the difference of the gradients at both halves of visits.
  std::vector<double> difference(std::span<const Index> rows, const ChoiceProblem& problem) const;

  std::vector<double> theta() const { return start_.free.whole(start_.own); }

 private:
  // T T' times a slope.
  std::vector<double> direction(std::span<const double> slope) const;

  DrawnDescentStart start_;
  std::variant<DrawnSums, DrawnProducts> sums_;
  std::vector<double> sum_of_own_;          // of the steps of this pass
  std::vector<std::vector<double>> means_;  // of each pass
  double n_batches_ = 0, loss_ = 0;
};

}  // namespace manyclass
