// Random draws named by (seed, epoch, item): the same numbers whichever thread asks, in whatever order.
//
// std::mt19937 with std::uniform_int_distribution is not used: it takes 2.5 kB of state per stream. The standard does
// not specify the distribution's output either, so a seed would mean something else with another library.
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

  // Uniform on {0, ..., n - 1}, exactly. The method is Lemire's (ACM TOMACS 2019): multiply the upper 32 bits, take the
  // high half, reject the few products that would favour some numbers.
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

// Items of an epoch that are not points: the class order, and below it, two by two, the orders of visits to points that
// came after others. Their numbers are kept apart from any point's index.
inline constexpr std::uint64_t visit_order_item = ~0ULL;
inline constexpr std::uint64_t class_order_item = ~1ULL;
// Point i draws its classes as item i, and everything else that it draws as item first_local_item + i.
inline constexpr std::uint64_t first_local_item = 1ULL << 32;

// A uniformly random permutation, by Fisher and Yates.
inline void shuffle(std::span<Index> items, Rng rng) {
  for (std::size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[rng.below(static_cast<std::uint32_t>(i))]);
  }
}

}  // namespace manyclass
