// Random draws named by (seed, epoch, item): the same numbers whichever thread asks, in whatever order.
//
// Not std::mt19937 + std::uniform_int_distribution: 2.5 kB of state per stream, and the distributions' output
// is not specified by the standard, so seeds would not port.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "manyclass/core/types.hpp"

namespace manyclass {

// The output function of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014): a bijection of 64-bit words.
inline std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

inline constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15ULL;  // odd, 2^64 / golden ratio

struct RngKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

class Rng {
 public:
  Rng(RngKey key, std::uint64_t item)
      : state_(mix64(mix64(mix64(key.seed + golden_gamma) + key.epoch * golden_gamma) + item * golden_gamma)) {}

  std::uint64_t next() { return mix64(state_ += golden_gamma); }

  // Uniform on [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // Uniform on ]0, 1[, 52 bits.
  double inside() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1.0p-52; }

  // Uniform on {0, ..., n - 1}, exactly: Lemire's multiply-high with rejection on the upper 32 bits (ACM
  // TOMACS 2019).
  std::uint32_t below(std::uint32_t n) {
    std::uint64_t product = (next() >> 32) * n;
    if (static_cast<std::uint32_t>(product) < n) {
      const std::uint32_t threshold = (0U - n) % n;
      while (static_cast<std::uint32_t>(product) < threshold) product = (next() >> 32) * n;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint64_t state_;
};

// Items of one epoch that are not points, kept apart from any point's index.
inline constexpr std::uint64_t visit_order_item = ~0ULL;
inline constexpr std::uint64_t class_order_item = ~1ULL;
// A point's draws beside those of its classes: first_local_item + i.
inline constexpr std::uint64_t first_local_item = 1ULL << 32;

// Fisher-Yates.
inline void shuffle(std::span<Index> items, Rng rng) {
  for (std::size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[rng.below(static_cast<std::uint32_t>(i))]);
  }
}

}  // namespace manyclass
