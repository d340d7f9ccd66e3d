// See interrupt.hpp.
#include "manyclass/core/interrupt.hpp"

#include <utility>

namespace manyclass {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto between = std::chrono::milliseconds(50);

struct Thread {
  Asking::Ask ask = nullptr;  // of the thread that began the team: Python lets one thread only see signals
  std::atomic<bool>* ended = nullptr;
  std::size_t work = 0;  // since the last look at the clock
  Clock::time_point asked{};
};

thread_local Thread own;

}  // namespace

Asking::Asking(Ask ask) : before_(std::exchange(own.ask, ask)) {}
Asking::~Asking() { own.ask = before_; }

InTeam::InTeam(std::atomic<bool>& ended) : before_(std::exchange(own.ended, &ended)) {}
InTeam::~InTeam() { own.ended = before_; }

void poll(std::size_t work) {
  if (own.ended != nullptr && *own.ended) throw Interrupted();
  if (own.ask == nullptr) return;
  own.work += work;
  if (own.work < work_between_looks) return;
  own.work = 0;
  const auto now = Clock::now();
  if (now - own.asked < between) return;
  own.asked = now;
  try {
    own.ask();
  } catch (const Interrupted&) {
    if (own.ended != nullptr) *own.ended = true;
    throw;
  }
}

}  // namespace manyclass
