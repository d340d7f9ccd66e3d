// Threads: the only place that knows OpenMP.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#ifdef MANYCLASS_OPENMP
#include <omp.h>
#else
#include <vector>
#endif

namespace manyclass {

// Where the threads of a team wait for each other, between stretches of tens of microseconds.
//
// It spins for about as long as such a stretch, then lets other programs have the processor: OpenMP's own barrier spins
// for milliseconds, which made training ten times slower on a machine with something else to do.
class Barrier {
 public:
  explicit Barrier(int n_threads) : n_threads_(n_threads) {}

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
  int n_threads_;
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

// Runs f(member) on n_threads threads at once. f must not throw: a member that left early would keep the others
// waiting at a barrier.
template <class F>
void run_team(int n_threads, F&& f) {
  if (n_threads == 1) {  // at once: to start a team takes a microsecond, a tenth of a single query
    Barrier gate(1);
    f(Member(0, 1, gate));
    return;
  }
#ifdef MANYCLASS_OPENMP
  // OpenMP may give fewer threads than asked for (a limit set by the user), so the team's size is known only inside.
  std::optional<Barrier> gate;
#pragma omp parallel num_threads(n_threads)
  {
#pragma omp single
    gate.emplace(omp_get_num_threads());
    f(Member(omp_get_thread_num(), omp_get_num_threads(), *gate));
  }
#else
  Barrier gate(n_threads);
  std::vector<std::jthread> others;
  for (int rank = 1; rank < n_threads; ++rank) {
    others.emplace_back([&, rank] { f(Member(rank, n_threads, gate)); });
  }
  f(Member(0, n_threads, gate));
#endif
}

// Calls f(i) for i in [0, n), handing out items one at a time; an item is meant to be a sizeable piece of work. The
// first exception is rethrown in the caller once all threads have stopped.
template <class F>
void parallel_for(int n_threads, std::size_t n, F&& f) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&](Member) {
    for (std::size_t i = next++; i < n; i = next++) {
      try {
        f(i);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next = n;
      }
    }
  };
  const auto useful = static_cast<int>(std::min<std::size_t>(n, static_cast<std::size_t>(std::max(n_threads, 1))));
  run_team(std::max(useful, 1), work);
  if (error) std::rethrow_exception(error);
}

}  // namespace manyclass
