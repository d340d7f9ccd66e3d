// Passes over a text whose step size falls linearly over all of them, what a pass adds up to, and the way back where
// vectors overflow.
#pragma once

#include <span>
#include <vector>

#include "manyclass/train/common/trainer.hpp"

namespace manyclass {

struct WordSchedule {
  double first_rate = 0, last_rate = 0;  // step sizes of vectors at the beginning and at the end
  double eta_u = 0;                      // of what words carry
  int n_passes = 1;
  int first_pass = 0;    // draws are named by passes from this number on
  Offset n_visits = 0;   // sentences
  bool careful = false;  // whether a pass is begun by a copy of the tables, which takes their memory once more
};

// What is moved: both tables, and what words carry.
struct WordNumbers {
  std::span<float> input, output;
  std::span<double> carried;
};

class WordPasses {
 public:
  // The trainer moves these numbers, and outlives the passes.
  WordPasses(Trainer& trainer, const WordNumbers& numbers, const WordSchedule& schedule);

  // Makes visits of a pass from `first` on, as many as `seconds` suffice for.
  Progress run(int n_pass, Offset first, double seconds);

  // Whether a number of a vector is none, or beyond 2^60, whose square is far from the end of single precision.
  bool has_overflowed() const;
  // Makes the numbers those before the pass; returns false, and leaves them, where no copy was made.
  bool go_back() const;

  double loss = 0;  // of the pass so far, over `loss_pairs`
  Offset loss_pairs = 0;
  Offset refused = 0;  // steps of all passes that were too large to take

 private:
  Trainer& trainer_;
  WordNumbers numbers_;
  WordSchedule schedule_;
  std::vector<float> input_before_, output_before_;
  std::vector<double> carried_before_;
};

}  // namespace manyclass
