// Waiting threads borrowed and given back at once by many threads and around forks; compiled by test_workers.py.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "check.hpp"
#include "manyclass/core/workers.hpp"

namespace {

using manyclass::BorrowedWorkers;

// Long enough for a race of a few nanoseconds, short enough for a test: some seconds for both.
constexpr int n_borrowings = 50'000, forks = 400;
constexpr unsigned most_seconds = 60;

// Lets at most n threads count to its size; returns what it has counted to.
int counted(int n, int& size) {
  std::atomic<int> count = 0;
  {
    const BorrowedWorkers workers(n);
    size = workers.size();
    workers.start(
        {[](const void* body, int, int) { ++*static_cast<std::atomic<int>*>(const_cast<void*>(body)); }, &count});
  }
  return count;
}

// Threads of this process, or 0 where the system does not tell.
long threads_there() {
  std::error_code none;
  const std::filesystem::directory_iterator all("/proc/self/task", none);
  return none ? 0 : static_cast<long>(std::distance(begin(all), end(all)));
}

void no_thread_is_borrowed_twice_or_forgotten() {
  using clock = std::chrono::steady_clock;
  constexpr int takers = 4, most = 3;
  const auto end = clock::now() + std::chrono::seconds(most_seconds / 4);  // where threads wait for a processor
  std::vector<std::thread> threads;
  for (int thread = 0; thread < takers; ++thread) {
    threads.emplace_back([thread, end] {
      for (int i = 0, size = 0; i < n_borrowings && clock::now() < end; ++i) {
        const int count = counted(1 + (i + thread) % most, size);
        CHECK(count == size);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(threads_there() <= 1 + takers * most);
}

// A child has the list and its mutex as they were at that moment, and none of the threads.
void a_child_of_a_fork_has_threads_of_its_own() {
  std::atomic<bool> go_on = true;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&go_on] {
      while (go_on) const BorrowedWorkers workers(2);
    });
  }
  for (int i = 0; i < forks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);  // for one that waits for ever
      int size = 0;
      const int count = counted(2, size);
      _exit(count == size && size == 2 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    if (status != 0) break;
  }
  go_on = false;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  alarm(most_seconds);
  no_thread_is_borrowed_twice_or_forgotten();
  a_child_of_a_fork_has_threads_of_its_own();
  return manyclass::testing::report();
}
