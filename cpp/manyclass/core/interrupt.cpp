// See interrupt.hpp.
#include "manyclass/core/interrupt.hpp"

#include <utility>

namespace manyclass {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto between = std::chrono::milliseconds(50);

struct Thread {
  Asking::Ask ask = nullptr;
  std::size_t work = 0;  // since the last look at the clock
  Clock::time_point asked{};
};

thread_local Thread own;

}  // namespace

Asking::Asking(Ask ask) : before_(std::exchange(own.ask, ask)) {}
Asking::~Asking() { own.ask = before_; }

void poll(std::size_t work) {
  if (own.ask == nullptr) return;
  own.work += work;
  if (own.work < work_between_looks) return;
  own.work = 0;
  const auto now = Clock::now();
  if (now - own.asked < between) return;
  own.asked = now;
  own.ask();
}

}  // namespace manyclass
