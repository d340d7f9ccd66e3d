// How u_i is put right before the gradient is taken.
#pragma once

namespace manyclass {

// Plain SGD on (u, W).
struct Vanilla {
  double before(double u, double) const { return u; }
};

// U-max (Fagan & Iyengar 2018, Algorithm 1; arXiv Algorithm 2 with distinct classes): `bound` = log(1 + sum_S
// e^d) is at most u*, so a u more than delta below it is too small for certain and is moved up to it.
struct UMax {
  double delta;
  double before(double u, double bound) const { return u < bound - delta ? bound : u; }
};

}  // namespace manyclass
