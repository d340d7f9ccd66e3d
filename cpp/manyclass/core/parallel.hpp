// Threads: the only place that knows OpenMP.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <utility>

#ifdef MANYCLASS_OPENMP
#include <omp.h>
#else
#include <barrier>
#include <thread>
#include <vector>
#endif

namespace manyclass {

// One thread's view of the team it runs in.
class Member {
 public:
#ifdef MANYCLASS_OPENMP
  Member(int rank, int size) : rank_(rank), size_(size) {}
  void barrier() const {
#pragma omp barrier
  }
#else
  Member(int rank, int size, std::barrier<>& gate) : rank_(rank), size_(size), gate_(&gate) {}
  void barrier() const { gate_->arrive_and_wait(); }
#endif
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
#ifndef MANYCLASS_OPENMP
  std::barrier<>* gate_;
#endif
};

// Runs f(member) on n_threads threads at once. f must not throw: a member that left early would keep the
// others waiting at a barrier. (OpenMP may give fewer threads; member.size() tells how many there are.)
template <class F>
void run_team(int n_threads, F&& f) {
#ifdef MANYCLASS_OPENMP
#pragma omp parallel num_threads(n_threads)
  {
    f(Member(omp_get_thread_num(), omp_get_num_threads()));
  }
#else
  std::barrier<> gate(n_threads);
  std::vector<std::jthread> others;
  for (int rank = 1; rank < n_threads; ++rank) {
    others.emplace_back([&, rank] { f(Member(rank, n_threads, gate)); });
  }
  f(Member(0, n_threads, gate));
#endif
}

// Calls f(i) for i in [0, n), handing out items one at a time; an item is meant to be a sizeable piece of
// work. The first exception is rethrown in the caller once all threads have stopped.
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
