// Whether work that a team shares is done by all of its threads or by one, by what each way took of late.
//
// Members wait for each other at every barrier. Where other programs have the processors, or pieces of work take
// microseconds, a team can be slower than one thread, by a factor of 30 (bench/decisions.md). The clock decides who
// works and never what comes out: this is for work whose result does not depend on the number of threads.
#pragma once

#include <algorithm>

#include "manyclass/core/types.hpp"

namespace manyclass {

class Pace {
 public:
  explicit Pace(int n_threads) : n_threads_(n_threads) {}

  int n_threads() const { return together_ ? n_threads_ : 1; }
  // How many pieces of work to do in this way before took() is to be called; it may be called with fewer.
  Offset n_pieces() const { return left_; }

  void took(double seconds, Offset n_pieces) {
    seconds_ += seconds;
    done_ += n_pieces;
    left_ -= n_pieces;
    if (left_ > 0) return;
    seconds_a_piece_[together_ ? 1 : 0] = seconds_ / static_cast<double>(done_);
    if (trial_) {
      const bool better = seconds_a_piece_[1] < seconds_a_piece_[0];
      stint_ = better == choice_ ? std::clamp(2 * stint_, shortest, longest) : shortest;
      choice_ = together_ = better;
    } else {
      together_ = !choice_;
    }
    trial_ = !trial_;
    left_ = trial_ ? trial : stint_;
    seconds_ = 0;
    done_ = 0;
  }

 private:
  // Pieces of work: a trial of the other way costs at most an eighth of the stint before it, times how much slower it
  // is; each that finds nothing new doubles the next stint.
  static constexpr Offset trial = 8, shortest = 64, longest = 8192;

  int n_threads_;
  bool choice_ = false, together_ = false;  // one thread first, as it is the one that cannot lose
  bool trial_ = false;
  Offset stint_ = trial, left_ = trial, done_ = 0;
  double seconds_ = 0;
  double seconds_a_piece_[2] = {};  // of one thread, of the team
};

}  // namespace manyclass
