// Threads: teams, barriers and parallel loops. Where a team's threads come from is told in teams.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/pace.hpp"
#include "manyclass/core/teams.hpp"

namespace manyclass {

// A barrier where the threads of a team wait for each other between stretches of tens of microseconds.
//
// It spins for about as long as such a stretch lasts, then lets other programs have the processor. A barrier that spins
// for milliseconds, as OpenMP's does, made training ten times slower on a machine with something else to do.
class Barrier {
 public:
  // Waits for n_threads in all, a number that is the same for each of them.
  void wait(int n_threads) {
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_threads) {
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
  std::atomic<int> arrived_{0};
  std::atomic<unsigned> round_{0};
};

// One thread's view of the team it runs in.
class Member {
 public:
  Member(int rank, int size, Barrier& gate) : rank_(rank), size_(size), gate_(&gate) {}

  void barrier() const { gate_->wait(size_); }
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

// A job that calls body(rank, size).
template <class Body>
Job job_of(const Body& body) {
  return {[](const void* of, int rank, int size) { (*static_cast<const Body*>(of))(rank, size); }, &body};
}

// Runs f(member) on n_threads threads at once, or on fewer where OpenMP or the system gives no more. f must not throw:
// a member that left early would keep the others waiting at a barrier.
template <class F>
void run_team(int n_threads, F&& f) {
  Barrier gate;
  std::atomic<bool> ended{false};
  const auto member = [&](int rank, int size) {
    const InTeam team(ended);
    f(Member(rank, size, gate));
  };
  run_together(n_threads, job_of(member));
}

// Runs f(rank) on up to n_threads threads, each of which takes pieces of the work until none is left. f must not throw.
// Returns the seconds by which this took longer than the threads' own seconds in all, which one thread might have
// taken: more than 0 where the caller did most of it and then waited for a thread that the system had not let begin.
template <class F>
double share_out(int n_threads, F&& f) {
  std::atomic<bool> ended{false};
  std::atomic<std::int64_t> worked{0};  // nanoseconds
  const Stopwatch all;
  const auto member = [&](int rank, int) {
    const InTeam team(ended);
    const Stopwatch own;
    f(rank);
    worked += static_cast<std::int64_t>(1e9 * own.seconds());
  };
  share(n_threads, job_of(member));
  return all.seconds() - 1e-9 * static_cast<double>(worked);
}

// Calls f(i) for i in [0, n). Threads take one item at a time, so an item should be a sizeable piece of work. The first
// exception is rethrown in the caller once all threads have stopped; the caller polls between its items.
template <class F>
void parallel_for(int n_threads, std::size_t n, F&& f) {
  thread_local Debt debt;  // of this loop in the code, as f has a type of its own
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto items = [&](auto&& go_on) {
    for (std::size_t i; go_on() && (i = next++) < n;) {
      try {
        poll();
        f(i);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next = n;
      }
    }
  };
  const auto always = [] { return true; };
  const int most = std::min(n_threads, most_threads());
  if (most > 1) debt.work_off(items);
  const auto n_left = n - std::min<std::size_t>(next, n);
  const auto useful = static_cast<int>(std::min<std::size_t>(n_left, static_cast<std::size_t>(std::max(most, 1))));
  if (useful > 1) {
    debt.add(share_out(useful, [&](int) { items(always); }));
  } else {
    items(always);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace manyclass
