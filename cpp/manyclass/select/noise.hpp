// Words of noise for negative sampling: one 64-bit draw and one look-up each.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/frequency.hpp"

namespace manyclass {

// The alias table of select/frequency.hpp with its two halves side by side. The upper half of a word chooses the entry,
// without the rejection that would make it exact, the lower half whether to accept: every probability is right to
// 2^-32, which no estimate of a corpus's frequencies is.
class NoiseTable {
 public:
  explicit NoiseTable(const AliasTable& exact) {
    entries_.reserve(exact.size());
    for (std::size_t k = 0; k < exact.size(); ++k) {
      const double most = static_cast<double>(std::numeric_limits<std::uint32_t>::max());
      entries_.push_back({static_cast<std::uint32_t>(exact.accept(k) * most), exact.alias(k)});
    }
  }

  Index draw(Rng& rng) const {
    const std::uint64_t word = rng.next();
    const std::uint64_t k = ((word >> 32) * entries_.size()) >> 32;
    const Entry& entry = entries_[k];
    return static_cast<std::uint32_t>(word) <= entry.accept ? static_cast<Index>(k) : entry.alias;
  }

 private:
  struct Entry {
    std::uint32_t accept;
    Index alias;
  };
  std::vector<Entry> entries_;
};

}  // namespace manyclass
