// Threads: teams, barriers and parallel loops.
//
// Not OpenMP: its threads do not survive a fork, so that a child hangs at its first team; and where one cannot be
// started, the process ends.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/workers.hpp"

namespace manyclass {

// A barrier where the threads of a team wait for each other between stretches of tens of microseconds.
//
// It spins for about as long as such a stretch lasts, then lets other programs have the processor. A barrier that spins
// for milliseconds, as OpenMP's does, made training ten times slower on a machine with something else to do.
class Barrier {
 public:
  // Before any thread waits.
  void expect(int n_threads) { n_threads_ = n_threads; }

  void wait() {
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int spin = 0; round_.load(std::memory_order_acquire) == round; ++spin) {
      if (spin > patience) std::this_thread::yield();
    }
  }

 private:
  static constexpr int patience = 1 << 14;  // loads from the own cache, about a nanosecond each
  int n_threads_ = 1;
  std::atomic<int> arrived_{0};
  std::atomic<unsigned> round_{0};
};

// One thread's view of the team it runs in.
class Member {
 public:
  Member(int rank, int size, Barrier& gate) : rank_(rank), size_(size), gate_(&gate) {}

  void barrier() const { gate_->wait(); }
  int rank() const { return rank_; }
  int size() const { return size_; }

  // This member's contiguous share [begin, end) of n items.
  std::pair<std::size_t, std::size_t> share(std::size_t n) const {
    const auto r = static_cast<std::size_t>(rank_);
    const auto s = static_cast<std::size_t>(size_);
    return {n * r / s, n * (r + 1) / s};
  }

 private:
  int rank_;
  int size_;
  Barrier* gate_;
};

// A job that calls body(rank).
template <class Body>
Job job_of(const Body& body) {
  return {[](const void* of, int rank) { (*static_cast<const Body*>(of))(rank); }, &body};
}

// Runs f(member) on n_threads threads at once, or on fewer where the system has no more. f must not throw: a member that
// left early would keep the others waiting at a barrier.
template <class F>
void run_team(int n_threads, F&& f) {
  if (n_threads == 1) {  // without a crew, whose waking takes microseconds, a tenth of a single query
    Barrier gate;
    f(Member(0, 1, gate));
    return;
  }
  int size = 1;
  Barrier gate;
  std::atomic<bool> ended{false};
  const auto member = [&](int rank) {
    const InTeam team(ended);
    f(Member(rank, size, gate));
  };
  const Crew crew(n_threads - 1);  // last, so that its threads have ended before what they look at
  size = crew.size() + 1;
  gate.expect(size);
  crew.start(job_of(member));
  member(0);
}

// Runs f(rank) on up to n_threads threads, each of which takes pieces of the work until none is left: so threads that
// have not begun when the caller has ended never do. f must not throw.
template <class F>
void share_out(int n_threads, F&& f) {
  std::atomic<bool> ended{false};
  const auto member = [&](int rank) {
    const InTeam team(ended);
    f(rank);
  };
  const Crew crew(n_threads - 1);
  crew.start(job_of(member));
  member(0);
  crew.recall();
}

// Calls f(i) for i in [0, n). Threads take one item at a time, so an item should be a sizeable piece of work. The first
// exception is rethrown in the caller once all threads have stopped; the caller polls between its items.
template <class F>
void parallel_for(int n_threads, std::size_t n, F&& f) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto useful = std::min<std::size_t>(n, static_cast<std::size_t>(std::max(n_threads, 1)));
  share_out(static_cast<int>(useful), [&](int) {
    for (std::size_t i = next++; i < n; i = next++) {
      try {
        poll();
        f(i);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next = n;
      }
    }
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace manyclass
