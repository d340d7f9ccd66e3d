// Gradient descent on the collapsed skip-gram objective F in the input and the output table by turns.
//
// Each row's gradient is divided by its word's share of the pairs, so that rare words move as fast as frequent ones:
// for h_x that leaves the gradient of x's own loss, which depends on no other row, so that each has its own step size.
// A step that does not go down is taken back and halved, of h_x until the next pass, of all v_y at once; one that does
// makes the next longer by a tenth.
#pragma once

#include <span>
#include <vector>

#include "manyclass/words/table_gradients.hpp"

namespace manyclass {

class TableDescent {
 public:
  // `input_rates` has the step size of each row of h; both are moved in place.
  TableDescent(TableGradients& gradients, std::span<double> input_rates, double output_rate);

  // Moves both tables; returns F after it, or an estimate where gradients are estimated. Where it throws, the tables
  // are those before it: a step on trial may be a bad one.
  double step();
  void move_input();
  // Returns what was to be lowered.
  std::vector<double> move_output();

  double output_rate() const { return output_rate_; }
  void set_output_rate(double rate) { output_rate_ = rate; }

 private:
  TableGradients& gradients_;
  std::span<double> input_rates_;
  double output_rate_;
};

}  // namespace manyclass
