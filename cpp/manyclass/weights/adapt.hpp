// The adaptive move of one weight (Ruiz et al. 2018, section 4).
#pragma once

#include <cmath>

namespace manyclass {

// s <- G^2 at the first visit, then s <- 0.1 G^2 + 0.9 s; and w += rate G / (1 + sqrt s).
//
// |G| counts as 2^63 at most, whose square is finite: from there on the move is `rate` in either case.
//
// G = 0 does not count as a visit. So sparse data, whose zeros are not stored, train as the same data made dense.
inline void adapt(float& w, float& s, float g, float rate) {
  constexpr float most = 0x1p63F;
  g = g <= most ? g : most;  // where two infinities have met, too
  g = g >= -most ? g : -most;
  const float g_sq = g * g;
  const float next = s == 0 ? g_sq : 0.1F * g_sq + 0.9F * s;
  s = g == 0 ? s : next;
  w += rate * g / (1 + std::sqrt(s));
}

}  // namespace manyclass
