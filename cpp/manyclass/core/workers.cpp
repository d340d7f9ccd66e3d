// See workers.hpp.
#include "manyclass/core/workers.hpp"

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace manyclass {

// A thread and its place in the list of those that wait. It lives to the end of the process, so that nothing waits for
// it there, and nothing frees what it looks at.
class Worker {
 public:
  // Throws std::system_error where the system has no thread.
  Worker() {
    std::thread([this] { serve(); }).detach();
  }

  void start(Job job, int rank, int size) {
    job_ = job;
    rank_ = rank;
    size_ = size;
    state_ = asked;
    state_.notify_one();
  }

  // Takes the job back where it has not begun.
  void recall() {
    int expected = asked;
    state_.compare_exchange_strong(expected, idle);
  }

  void join() const {
    for (int state = state_; state != idle; state = state_) state_.wait(state);
  }

  Worker* next = nullptr;

 private:
  enum State : int { idle, asked, busy };

  void serve() {
    while (true) {
      state_.wait(idle);
      int expected = asked;
      if (!state_.compare_exchange_strong(expected, busy)) continue;  // it was taken back
      job_.call(job_.body, rank_, size_);
      state_ = idle;
      state_.notify_one();
    }
  }

  std::atomic<int> state_{idle};
  Job job_{};
  int rank_ = 0, size_ = 1;
};

namespace {

std::mutex mutex;
Worker* waiting = nullptr;

#ifndef _WIN32
// A child of fork has its parent's memory without the threads, and maybe a mutex that one of them held: it begins anew.
const int at_fork = pthread_atfork(nullptr, nullptr, [] {
  ::new (&mutex) std::mutex;
  waiting = nullptr;
});
#endif

}  // namespace

BorrowedWorkers::BorrowedWorkers(int n) {
  if (n < 1) return;
  workers_.reserve(static_cast<std::size_t>(n));
  {
    const std::lock_guard lock(mutex);
    for (; waiting != nullptr && size() < n; waiting = waiting->next) workers_.push_back(waiting);
  }
  try {
    while (size() < n) workers_.push_back(std::make_unique<Worker>().release());
    // No thread, or no memory for one: the work is done by those that there are.
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
}

BorrowedWorkers::~BorrowedWorkers() {
  if (workers_.empty()) return;
  for (const Worker* worker : workers_) worker->join();
  const std::lock_guard lock(mutex);
  for (Worker* worker : workers_) {
    worker->next = waiting;
    waiting = worker;
  }
}

void BorrowedWorkers::recall() const {
  for (Worker* worker : workers_) worker->recall();
}

void BorrowedWorkers::start(Job job) const {
  for (int i = 0; i < size(); ++i) workers_[static_cast<std::size_t>(i)]->start(job, i + 1, size() + 1);
}

bool can_start(int n) {
  std::atomic<bool> counted{false};
  std::vector<std::thread> threads;
  bool all = true;
  try {
    threads.reserve(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) threads.emplace_back([&counted] { counted.wait(false); });
  } catch (const std::exception&) {  // the system has no thread, or no memory for one
    all = false;
  }
  counted = true;
  counted.notify_all();
  for (std::thread& thread : threads) thread.join();
  return all;
}

}  // namespace manyclass
