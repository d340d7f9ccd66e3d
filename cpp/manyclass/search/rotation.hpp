// A random rotation of vectors, the same for all of one length: a few large columns are spread over all columns, whose
// numbers then are nearly normal.
//
// Signs, and Walsh and Hadamard's transform of the first 2^m columns, 2^m being the largest power that fits, then the
// same with the last 2^m, twice: D log D operations ("FhtKac" of Gao et al., arXiv 2409.09913).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/core/rng.hpp"

namespace manyclass {

class Rotation {
 public:
  explicit Rotation(std::size_t n) : power_(std::bit_floor(n)), signs_(n_rounds * n) {
    Rng rng({n, 0}, 0);
    for (float& sign : signs_) sign = rng.below(2) == 0 ? 1.0F : -1.0F;
  }

  void apply(std::span<float> x) const {
    std::vector<float> other(power_);
    for (std::size_t round = 0; round < n_rounds; ++round) {
      flip(x, round);
      transform<false>(part(x, round), other);
    }
  }

  void undo(std::span<float> x) const {
    std::vector<float> other(power_);
    for (std::size_t round = n_rounds; round-- > 0;) {
      transform<true>(part(x, round), other);
      flip(x, round);
    }
  }

 private:
  static constexpr std::size_t n_rounds = 4;

  std::span<float> part(std::span<float> x, std::size_t round) const {
    return round % 2 == 0 ? x.first(power_) : x.last(power_);
  }

  void flip(std::span<float> x, std::size_t round) const {
    const float* signs = signs_.data() + round * x.size();
    for (std::size_t j = 0; j < x.size(); ++j) x[j] *= signs[j];
  }

  // Each stage is the same loop over neighbours, however far apart they are in the usual order, and becomes vectors.
  template <bool back>
  void transform(std::span<float> x, std::span<float> other) const {
    const std::size_t half = power_ / 2;
    float *from = x.data(), *to = other.data();
    for (std::size_t stage = 1; stage < power_; stage *= 2) {
      const float* first = from + (back ? half : 1);
      for (std::size_t j = 0; j < half; ++j) {
        const float a = from[back ? j : 2 * j], b = first[back ? j : 2 * j];
        to[back ? 2 * j : j] = a + b;
        to[back ? 2 * j + 1 : half + j] = a - b;
      }
      std::swap(from, to);
    }
    const float factor = 1 / std::sqrt(static_cast<float>(power_));
    for (std::size_t j = 0; j < x.size(); ++j) x[j] = factor * from[j];
  }

  std::size_t power_;
  std::vector<float> signs_;  // of each round
};

}  // namespace manyclass
