// Long work asks now and then whether to go on, and a limit of time: the one place that knows a clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <exception>
#include <limits>

namespace manyclass {

// The work was told to end; what it has made is not whole.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// While it lives, poll() of this thread calls `ask`, which throws Interrupted where the work is to end.
class Asking {
 public:
  using Ask = void (*)();

  explicit Asking(Ask ask);
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking();

 private:
  Ask before_;
};

// While it lives, this thread is one of a team: what poll() throws in one of them, it throws in all.
class InTeam {
 public:
  explicit InTeam(std::atomic<bool>& ended);
  InTeam(const InTeam&) = delete;
  InTeam& operator=(const InTeam&) = delete;
  ~InTeam();

 private:
  std::atomic<bool>* before_;
};

// Asks, at most 20 times a second, once `work` (arithmetic, or words of memory) adds up to what takes tens of
// microseconds, beside which a look at the clock costs nothing. To be called where nothing is half done.
inline constexpr std::size_t work_between_looks = std::size_t{1} << 16;
void poll(std::size_t work = work_between_looks);

class Stopwatch {
 public:
  // Since it was made.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

// Seconds in which the calling thread had a processor, since it was made; those of a clock where the system has none of
// threads.
class ProcessorWatch {
 public:
  double seconds() const {
#ifdef CLOCK_THREAD_CPUTIME_ID
    return now() - begin_;
#else
    return time_.seconds();
#endif
  }

 private:
#ifdef CLOCK_THREAD_CPUTIME_ID
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double begin_ = now();
#else
  Stopwatch time_;
#endif
};

// Seconds from now.
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}

  bool passed() const { return seconds_ < std::numeric_limits<double>::infinity() && time_.seconds() >= seconds_; }

 private:
  double seconds_;
  Stopwatch time_;
};

}  // namespace manyclass
