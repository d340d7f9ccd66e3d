// Whether work that threads share is done by all of them or by one, by what each way took of late.
//
// Members of a team wait for each other. Where other programs have the processors, or pieces of work take microseconds,
// a team can be slower than one thread, by a factor of 30 (bench/figures/threads.md). A trial of the team ends when it
// has lost a twentieth of all seconds so far, and what it has lost is made up for by twenty times as much work of one
// thread before the next. The first trial comes after a tenth of a second, as a team may begin its first piece when the
// turns of two other programs have passed, 20 ms: fits of 30 to 100 ms took up to 1.6 times as long beside two
// programs. Where one thread has to wait for a processor, it comes after a second of the processor's: then a piece of
// work takes a team as long as its members wait for each other, tens of milliseconds or more. So a team costs at most a
// tenth of what one thread would take, and one piece of work. The clock decides who works and never what comes out:
// this is for work whose result does not depend on the number of threads. Where the environment has
// MANYCLASS_TEAMS=always the team works from the first piece on, so that tests meet what threads do to each other on
// any machine.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/types.hpp"

namespace manyclass {

inline constexpr double payback = 20;  // seconds of the better way for a second that the other one lost

// Whether teams are to work from the first piece on.
inline bool asked_for_teams() {
  const char* const value = std::getenv("MANYCLASS_TEAMS");  // NOLINT(concurrency-mt-unsafe): nothing here sets it
  return value != nullptr && std::string_view(value) == "always";
}

// Of threads that meet at barriers: which way the next pieces of work are done, and how many.
class Pace {
 public:
  explicit Pace(int n_threads) : n_threads_(n_threads) {}

  int n_threads() const { return together_ || always_together_ ? n_threads_ : 1; }
  // How many pieces of work to do in this way before took() is to be called; it may be called sooner.
  Offset n_pieces() const { return left_; }
  // Whether the pieces made in one way, and the seconds that they took, are enough to judge that way by.
  bool is_enough(Offset n_pieces, double seconds) const {
    return seconds_ + seconds >= limit_ + usual_ * static_cast<double>(done_ + n_pieces);
  }

  // Of one thread, `of_processor` are the seconds in which it had a processor.
  void took(double seconds, double of_processor, Offset n_pieces) {
    const bool enough = is_enough(n_pieces, seconds);
    seconds_ += seconds;
    spent_ += seconds;
    had_ += of_processor;
    done_ += n_pieces;
    left_ -= n_pieces;
    if (done_ == 0 || (left_ > 0 && !enough)) return;
    if (seconds_a_piece_[0] == 0 && had_ < (had_ < least_share * spent_ ? busy_start : first_trial)) {
      left_ = trial;
      return;
    }
    seconds_a_piece_[together_ ? 1 : 0] = seconds_ / static_cast<double>(done_);
    trial_ = !trial_;
    if (trial_) {
      together_ = !choice_;
      left_ = trial;
      usual_ = seconds_a_piece_[choice_ ? 1 : 0];
      limit_ = std::min(spent_ / payback, trial * usual_);
    } else {
      const bool better = seconds_a_piece_[1] < seconds_a_piece_[0];
      const double best = seconds_a_piece_[better ? 1 : 0];
      const double lost = better == together_ ? 0 : seconds_ - static_cast<double>(done_) * best;
      interval_ = better == choice_ ? std::clamp(2 * interval_, shortest, longest) : shortest;
      choice_ = together_ = better;
      left_ = std::max(interval_, static_cast<Offset>(std::min(payback * lost / best, 1e9)));
      usual_ = 0;
      limit_ = std::max(payback * lost, look_again);
    }
    seconds_ = 0;
    done_ = 0;
  }

 private:
  // Pieces of work: each trial of the other way that finds nothing new doubles the next interval.
  static constexpr Offset trial = 8, shortest = 64, longest = 8192;
  static constexpr double look_again = 0.5;  // seconds: other programs begin and end
  // Seconds of the processor before the first trial; and where one thread has less than this share of a processor, so
  // that it waits for other programs.
  static constexpr double first_trial = 0.1, least_share = 0.8, busy_start = 1;

  int n_threads_;
  bool always_together_ = asked_for_teams();
  bool choice_ = false, together_ = false;  // one thread first, as it is the one that cannot lose
  bool trial_ = false;
  Offset interval_ = trial, left_ = trial, done_ = 0;
  double spent_ = 0, had_ = 0;  // seconds since the first piece, and those of the processor in them
  // Of this way: seconds, and how many there may be for no piece and for each.
  double seconds_ = 0, limit_ = std::numeric_limits<double>::infinity(), usual_ = 0;
  double seconds_a_piece_[2] = {};  // of one thread, of the team
};

// Of threads that take pieces of work from a common heap: what a team has lost, which its caller works off alone. A
// loop begins with a debt of 5 ms, so that short fits, which make many loops once or twice, do not wait for a team in
// each.
class Debt {
 public:
  // Calls work(owes), which is to work alone for as long as owes() is true.
  template <class F>
  void work_off(F&& work) {
    if (seconds_ <= 0) return;
    const Stopwatch time;
    work([&] { return time.seconds() < seconds_; });
    seconds_ -= time.seconds();
  }

  // A team took so much longer than one thread would have taken, or as much less where it is negative.
  void add(double lost) { seconds_ = payback * std::max(lost, 0.0); }

 private:
  double seconds_ = asked_for_teams() ? 0 : 5e-3;
};

}  // namespace manyclass
