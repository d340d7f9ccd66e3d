// See teams.hpp.
#include "manyclass/core/teams.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <thread>

#ifdef MANYCLASS_OPENMP
#include <omp.h>
#ifndef _WIN32
#include <pthread.h>
#endif
#endif

namespace manyclass {

namespace {

#ifdef MANYCLASS_OPENMP

// Whether this thread called fork and goes on in the child.
thread_local bool has_forked = false;
#ifndef _WIN32
const int at_fork = pthread_atfork(nullptr, nullptr, [] { has_forked = true; });
#endif

// The size of the last team that this thread began: libgomp keeps its members for the next.
thread_local int last_size = 1;

// Lets the members of teams of n threads sleep soon after their work, if the user has not said how they are to wait.
//
// libgomp's threads look 300,000 times for the next region before they sleep. That takes 9 ms of a processor, in which
// other programs wait, and the region after it begins late: at a load of 6 on two processors, regions of .1 ms took 4
// ms (bench/figures/threads.md). They look 1,000 times where libgomp counts more threads than processors
// (gomp_managed_threads in its config/linux/wait.h). So it is given more to count: a region whose threads sleep until
// the process ends. Where these would be more than the team, which then has less than a half of the processors, little
// is lost by looking.
void wait_asleep([[maybe_unused]] int n) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
    if (std::getenv(name) != nullptr) return;  // NOLINT(concurrency-mt-unsafe): nothing here sets it
  }
#ifdef KMP_VERSION_MAJOR  // LLVM's library has a function for it
  kmp_set_blocktime(0);
#else
  static std::atomic<bool> asked{false};
  static std::atomic<int> never{0}, asleep{0};
  const int missing = omp_get_num_procs() + 1 - n;
  if (missing < 1 || missing > n) return;
  if (asked.exchange(true) || !can_start(2 * (missing + 1))) return;
  std::thread([missing] {
#pragma omp parallel num_threads(missing + 1)
    {
      ++asleep;
      asleep.notify_one();
      never.wait(0);
    }
  }).detach();
  asleep.wait(0);
#endif
}

// Returns whether it has done the job.
bool done_by_openmp(int n, Job job) {
  if (has_forked) return false;
  if (n > last_size) wait_asleep(n);
  // Threads that have just ended may count for a limit a little longer, and hence twice what the team lacks.
  while (n > last_size && !can_start(2 * (n - last_size))) n = (n + last_size) / 2;
#pragma omp parallel num_threads(n)
  {
    const int rank = omp_get_thread_num(), size = omp_get_num_threads();
    if (rank == 0) last_size = size;
    job.call(job.body, rank, size);
  }
  return true;
}

#else

bool done_by_openmp(int, Job) { return false; }

#endif

}  // namespace

void run_together(int n_threads, Job job) {
  const int n = std::min(n_threads, most_threads());
  if (n <= 1) return job.call(job.body, 0, 1);  // a team of one would take microseconds, a tenth of a single query
  if (done_by_openmp(n, job)) return;
  const BorrowedWorkers workers(n - 1);
  workers.start(job);
  job.call(job.body, 0, workers.size() + 1);
}

void share(int n_threads, Job job) {
  const int n = std::min(n_threads, most_threads());
  if (n <= 1) return job.call(job.body, 0, 1);
  if (done_by_openmp(n, job)) return;
  const BorrowedWorkers workers(n - 1);
  workers.start(job);
  job.call(job.body, 0, workers.size() + 1);
  workers.recall();
}

int most_threads() {
#ifdef MANYCLASS_OPENMP
  return omp_get_max_threads();
#else
  static const int most = [] {
    constexpr int all = std::numeric_limits<int>::max();
    const char* given = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): nothing here sets it
    // Of "4,2", for teams in teams, the first counts.
    const long n = given == nullptr ? 0 : std::strtol(given, nullptr, 10);
    return n > 0 ? static_cast<int>(std::min<long>(n, all)) : all;
  }();
  return most;
#endif
}

bool by_openmp() {
#ifdef MANYCLASS_OPENMP
  return true;
#else
  return false;
#endif
}

}  // namespace manyclass
