// Threads of the standard library that wait for work, kept from one piece of work to the next.
//
// They sleep, and who gives them work does not wait for one that is still asleep when the work is done. Beside ten
// other programs on two cores, a loop of 4 ms on two such threads takes 26 ms, and 37 ms on one
// (bench/figures/threads.md).
#pragma once

#include <vector>

namespace manyclass {

// What each thread of a team does, given its rank and the team's size. It must not throw.
struct Job {
  void (*call)(const void* body, int rank, int size);
  const void* body;
};

class Worker;

// Some of the process's waiting threads, which no other team has meanwhile; where too few wait, more are started.
class BorrowedWorkers {
 public:
  // Of n threads: of fewer where the system refuses to start them.
  explicit BorrowedWorkers(int n);
  BorrowedWorkers(const BorrowedWorkers&) = delete;
  BorrowedWorkers& operator=(const BorrowedWorkers&) = delete;
  // Waits for the job's end.
  ~BorrowedWorkers();

  int size() const { return static_cast<int>(workers_.size()); }
  // Lets the threads do a job, once, as the ranks from 1 on of a team with one more member, which is the caller. The
  // job must live as long as this object.
  void start(Job job) const;
  // Takes the job back from the threads that have not begun it: on a busy machine they may take milliseconds to wake.
  void recall() const;

 private:
  std::vector<Worker*> workers_;
};

// Whether the system has n more threads: they are started, and ended.
bool can_start(int n);

}  // namespace manyclass
