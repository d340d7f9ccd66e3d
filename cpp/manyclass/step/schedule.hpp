// The step size as a function of passes made.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace manyclass {

enum class Schedule { exponential, inverse, constant, adaptive };

inline std::vector<std::string> schedule_names() { return {"exponential", "inverse", "constant", "adaptive"}; }

inline Schedule schedule_named(const std::string& name) {
  if (name == "exponential") return Schedule::exponential;
  if (name == "inverse") return Schedule::inverse;
  if (name == "constant") return Schedule::constant;
  if (name == "adaptive") return Schedule::adaptive;
  throw std::invalid_argument("schedule is '" + name +
                              "'; it must be one of 'exponential', 'inverse', 'constant', 'adaptive'");
}

// eta_0 r^t, eta_0 / (1 + t) or eta_0 in pass t = 0, 1, ...
inline double step_size(Schedule schedule, double eta_0, double decay, int pass) {
  switch (schedule) {
    case Schedule::exponential:
    case Schedule::adaptive:  // within a pass the loop divides it further: train/points.hpp
      return eta_0 * std::pow(decay, pass);
    case Schedule::inverse:
      return eta_0 / (1 + pass);
    case Schedule::constant:
      break;
  }
  return eta_0;
}

}  // namespace manyclass
