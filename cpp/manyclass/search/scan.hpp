// The inner loop of search: some queries against groups of sixteen coded rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/search/best.hpp"
#include "manyclass/search/codes.hpp"

namespace manyclass {

inline constexpr std::size_t most_queries = 4;  // scored in one pass over a group
inline constexpr std::size_t most_groups = 4;   // passed at once

// sums[(i * n_groups + g) * 16 + r] = c.b of query i and row r of group g. Groups stand `stride` bytes apart.
using ScanKernel = void (*)(const std::byte* groups, std::size_t stride, std::size_t chunks, const QueryCode* queries,
                            std::int32_t* sums);

struct ScanKernels {
  // by_shape[number of queries - 1][number of groups - 1]
  std::array<std::array<ScanKernel, most_groups>, most_queries> by_shape;
};

// The fastest kernels of an instruction set for codes of 8 or 4 bits; all give the same sums.
const ScanKernels& scan_kernels(Isa isa, int bits);

// Offers the groups [begin, end) of a block to at most most_queries queries.
void scan(const CodeBlock& block, std::size_t begin, std::size_t end, std::span<const QueryCode> queries,
          std::span<Best* const> best, Isa isa);

inline void scan(const CodeBlock& block, std::span<const QueryCode> queries, std::span<Best* const> best, Isa isa) {
  scan(block, 0, block.n_groups(), queries, best, isa);
}

}  // namespace manyclass
