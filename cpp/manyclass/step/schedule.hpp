// The step size as a function of passes made.
#pragma once

#include <array>
#include <cmath>
#include <string_view>

#include "manyclass/core/facts.hpp"

namespace manyclass {

enum class Schedule { exponential, inverse, constant, adaptive };
inline constexpr std::array<Facts, 4> schedule_facts{{
    {.name = "exponential", .sentence = "The step size falls by the factor decay after each pass."},
    {.name = "inverse", .sentence = "The step size is divided by the number of the pass."},
    {.name = "constant", .sentence = "The step size stays as it is."},
    {.name = "adaptive", .sentence = "Each weight's step is divided by the size of its own gradients, as in Adagrad."},
}};

inline Schedule schedule_named(std::string_view name) {
  return static_cast<Schedule>(place_of("schedule", name, schedule_facts));
}

// eta_0 r^t, eta_0 / (1 + t) or eta_0 in pass t = 0, 1, ...
inline double step_size(Schedule schedule, double eta_0, double decay, int pass) {
  switch (schedule) {
    case Schedule::exponential:
    case Schedule::adaptive:  // within a pass the loop divides it further: train/points/points.cpp
      return eta_0 * std::pow(decay, pass);
    case Schedule::inverse:
      return eta_0 / (1 + pass);
    case Schedule::constant:
      break;
  }
  return eta_0;
}

}  // namespace manyclass
