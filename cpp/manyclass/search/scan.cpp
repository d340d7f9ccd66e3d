// Sums of products of bytes: see the header.
//
// By intrinsics, because the instructions that multiply bytes and add four neighbours, or words and add two, are out of
// the vectoriser's reach: gain over the plain loop in bench/README.md (bench_index.py, test_instruction_sets).
#include "manyclass/search/scan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "manyclass/core/vectors.hpp"

#ifdef MANYCLASS_AVX2
#include <immintrin.h>
#endif

namespace manyclass {

namespace {

// The levels as the bytes that rows of 8 bits are stored as, for each quarter of a register.
alignas(64) constexpr std::array<std::uint8_t, 64> stored_levels = [] {
  std::array<std::uint8_t, 64> stored{};
  for (std::size_t l = 0; l < stored.size(); ++l) stored[l] = static_cast<std::uint8_t>(levels[l % 16] + 128);
  return stored;
}();

template <int bits, int queries, int groups>
void plain(const std::byte* data, std::size_t stride, std::size_t chunks, const QueryCode* query, std::int32_t* sums) {
  for (std::size_t i = 0; i < queries; ++i) {
    for (std::size_t g = 0; g < groups; ++g) {
      std::array<std::int32_t, group_rows> acc;
      acc.fill(query[i].offset);
      const auto* c = reinterpret_cast<const std::uint8_t*>(data + g * stride);
      const std::int16_t* b = query[i].words;
      for (std::size_t k = 0; k < chunks; ++k, c += chunk_bytes, b += chunk_dims * 8 / bits) {
        for (std::size_t r = 0; r < group_rows; ++r) {
          for (std::size_t l = 0; l < chunk_dims; ++l) {
            const std::uint8_t byte = c[r * chunk_dims + l];
            if constexpr (bits == 8) {
              acc[r] += byte * b[l];
            } else {
              acc[r] += stored_levels[byte & 15U] * b[l] + stored_levels[byte >> 4U] * b[chunk_dims + l];
            }
          }
        }
      }
      std::memcpy(sums + (i * groups + g) * group_rows, acc.data(), sizeof acc);
    }
  }
}

#ifdef MANYCLASS_AVX2

// Half a group (8 rows) at a time: bytes widened to words, pairs multiplied and added, halves added at the end.
template <int bits, int queries, int groups>
__attribute__((target("avx2"))) void run_avx2_scan(const std::byte* data, std::size_t stride, std::size_t chunks,
                                                   const QueryCode* query, std::int32_t* sums) {
  const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(stored_levels.data()));
  const __m128i nibble = _mm_set1_epi8(15);
  for (std::size_t g = 0; g < groups; ++g) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte* c = data + g * stride + half * 32;
      __m256i acc[queries][2];
      for (int i = 0; i < queries; ++i) acc[i][0] = acc[i][1] = _mm256_setzero_si256();
      const auto add = [&](__m128i low_rows, __m128i high_rows, std::size_t chunk) __attribute__((target("avx2"))) {
        const __m256i low = _mm256_cvtepu8_epi16(low_rows), high = _mm256_cvtepu8_epi16(high_rows);
        for (int i = 0; i < queries; ++i) {
          long long four;
          std::memcpy(&four, query[i].words + chunk * chunk_dims, sizeof four);
          const __m256i b = _mm256_set1_epi64x(four);
          acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(low, b));
          acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(high, b));
        }
      };
      const auto level = [&](__m128i numbers) __attribute__((target("avx2"))) {
        return _mm_shuffle_epi8(table, _mm_and_si128(numbers, nibble));
      };
      for (std::size_t k = 0; k < chunks; ++k, c += chunk_bytes) {
        const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(c));
        const __m128i high = _mm_load_si128(reinterpret_cast<const __m128i*>(c + 16));
        if constexpr (bits == 8) {
          add(low, high, k);
        } else {
          add(level(low), level(high), 2 * k);
          add(level(_mm_srli_epi16(low, 4)), level(_mm_srli_epi16(high, 4)), 2 * k + 1);
        }
      }
      for (std::size_t i = 0; i < queries; ++i) {
        const __m256i mixed = _mm256_hadd_epi32(acc[i][0], acc[i][1]);  // rows 0 1 4 5 | 2 3 6 7
        const __m256i sorted = _mm256_permute4x64_epi64(mixed, 0xd8);
        const __m256i sum = _mm256_add_epi32(sorted, _mm256_set1_epi32(query[i].offset));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + (i * groups + g) * group_rows + half * 8), sum);
      }
    }
  }
}

#define MANYCLASS_VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

template <int bits, int queries, int groups>
MANYCLASS_VNNI void run_avx512_scan(const std::byte* data, std::size_t stride, std::size_t chunks,
                                    const QueryCode* query, std::int32_t* sums) {
  const __m512i table = _mm512_load_si512(stored_levels.data());
  const __m512i nibble = _mm512_set1_epi8(15);
  // An alone sum would wait for itself at each chunk.
  constexpr std::size_t chains = queries * groups == 1 ? 4 : 1;
  __m512i sums_of_chains[chains][queries][groups];
  for (std::size_t chain = 0; chain < chains; ++chain) {
    for (int i = 0; i < queries; ++i) {
      for (int g = 0; g < groups; ++g) {
        sums_of_chains[chain][i][g] = _mm512_set1_epi32(chain == 0 ? query[i].offset : 0);
      }
    }
  }
  const auto add = [&](std::size_t k, __m512i(&acc)[queries][groups]) MANYCLASS_VNNI {
    __m512i c[groups];
    for (std::size_t g = 0; g < groups; ++g) c[g] = _mm512_load_si512(data + g * stride + k * chunk_bytes);
    for (std::size_t part = 0; part < 8 / bits; ++part) {
      __m512i rows[groups];
      for (int g = 0; g < groups; ++g) {
        rows[g] = c[g];
        if constexpr (bits == 4) {
          rows[g] = _mm512_shuffle_epi8(table, _mm512_and_si512(part == 0 ? c[g] : _mm512_srli_epi16(c[g], 4), nibble));
        }
      }
      for (int i = 0; i < queries; ++i) {
        std::int32_t four;
        std::memcpy(&four, query[i].bytes + (k * (8 / bits) + part) * chunk_dims, sizeof four);
        const __m512i b = _mm512_set1_epi32(four);
        for (int g = 0; g < groups; ++g) acc[i][g] = _mm512_dpbusd_epi32(acc[i][g], rows[g], b);
      }
    }
  };
  std::size_t k = 0;
  for (; k + chains <= chunks; k += chains) {
    for (std::size_t chain = 0; chain < chains; ++chain) add(k + chain, sums_of_chains[chain]);
  }
  for (; k < chunks; ++k) add(k, sums_of_chains[0]);
  for (std::size_t i = 0; i < queries; ++i) {
    for (std::size_t g = 0; g < groups; ++g) {
      __m512i sum = sums_of_chains[0][i][g];
      for (std::size_t chain = 1; chain < chains; ++chain) sum = _mm512_add_epi32(sum, sums_of_chains[chain][i][g]);
      _mm512_storeu_si512(sums + (i * groups + g) * group_rows, sum);
    }
  }
}

#endif

// The table of a kernel; kernel<queries, groups>() is its address.
template <class Kernel>
constexpr ScanKernels table(const Kernel& kernel) {
  ScanKernels kernels{};
  const auto fill = [&]<std::size_t... shape>(std::index_sequence<shape...>) {
    ((kernels.by_shape[shape / most_groups][shape % most_groups] =
          kernel.template operator()<shape / most_groups + 1, shape % most_groups + 1>()),
     ...);
  };
  fill(std::make_index_sequence<most_queries * most_groups>());
  return kernels;
}

// Of 4 and of 8 bits.
constexpr ScanKernels plain_kernels[] = {table([]<int q, int g>() { return &plain<4, q, g>; }),
                                         table([]<int q, int g>() { return &plain<8, q, g>; })};
#ifdef MANYCLASS_AVX2
constexpr ScanKernels avx2_kernels[] = {table([]<int q, int g>() { return &run_avx2_scan<4, q, g>; }),
                                        table([]<int q, int g>() { return &run_avx2_scan<8, q, g>; })};
constexpr ScanKernels vnni_kernels[] = {table([]<int q, int g>() { return &run_avx512_scan<4, q, g>; }),
                                        table([]<int q, int g>() { return &run_avx512_scan<8, q, g>; })};
#endif

// The tail of a group as vectors of the compiler, for several queries.
template <bool alone, std::size_t Bytes>
struct Tail {
  static constexpr std::size_t n_lanes = Bytes / sizeof(float), parts = group_rows / n_lanes;
  using Floats = Vector<float, Bytes>;
  using Ints = Vector<std::int32_t, Bytes>;

  Tail(const GroupTail& rows, const GroupErrors* errors) {
    widen(rows.scale, scale);
    widen(rows.norm, norm);
    if constexpr (!alone) widen(errors->error, error);
  }

  // Writes bounds of the scores of a query where one of them may reach the bar, which it says.
  bool reaches(const std::int32_t* sums, const QueryCode& query, float bar, GroupBounds& bounds) const {
    const float slack = alone ? query.slack + query.rest->slack : query.slack;
    Floats middle[parts], radius[parts];
    Ints reach{};
    for (std::size_t p = 0; p < parts; ++p) {
      products(sums, p, middle[p]);
      middle[p] *= query.scale * scale[p];
      radius[p] = slack * norm[p] + underflow_slack;
      if constexpr (!alone) radius[p] += query.coded_norm * error[p];
      reach |= middle[p] + radius[p] >= bar;
    }
    std::int32_t lanes[n_lanes];
    std::memcpy(lanes, &reach, Bytes);
    std::int32_t any = 0;
    for (const std::int32_t lane : lanes) any |= lane;
    if (any == 0) return false;
    std::memcpy(bounds.middle.data(), middle, sizeof middle);
    std::memcpy(bounds.radius.data(), radius, sizeof radius);
    return true;
  }

  // Adds the products with the second code of a query: what is then the middle is the score.
  void refine(const std::int32_t* sums, const QueryCode& query, GroupBounds& bounds) const {
    for (std::size_t p = 0; p < parts; ++p) {
      Floats middle, of_rest;
      std::memcpy(&middle, bounds.middle.data() + p * n_lanes, Bytes);
      products(sums, p, of_rest);
      middle += query.rest->scale * scale[p] * of_rest;
      std::memcpy(bounds.middle.data() + p * n_lanes, &middle, Bytes);
    }
    bounds.radius.fill(0);
  }

 private:
  static void widen(const std::array<std::uint16_t, group_rows>& halves, Floats* x) {
    for (std::size_t p = 0; p < parts; ++p) {
      Vector<std::uint16_t, Bytes / 2> part;
      std::memcpy(&part, halves.data() + p * n_lanes, Bytes / 2);
      const auto upper = __builtin_convertvector(part, Vector<std::uint32_t, Bytes>) << 16;
      std::memcpy(&x[p], &upper, Bytes);
    }
  }

  static void products(const std::int32_t* sums, std::size_t p, Floats& x) {
    Ints part;
    std::memcpy(&part, sums + p * n_lanes, Bytes);
    x = __builtin_convertvector(part, Floats);
  }

  Floats scale[parts], norm[parts], error[parts];
};

}  // namespace

const ScanKernels& scan_kernels(Isa isa, int bits) {
  const std::size_t by_bits = bits == 8 ? 1 : 0;
#ifdef MANYCLASS_AVX2
  if (isa == Isa::avx512 && __builtin_cpu_supports("avx512vnni")) return vnni_kernels[by_bits];
  if (isa >= Isa::avx2) return avx2_kernels[by_bits];
#else
  (void)isa;
#endif
  return plain_kernels[by_bits];
}

void scan(const CodeBlock& block, std::size_t begin, std::size_t end, std::span<const QueryCode> queries,
          std::span<Best* const> best, Isa isa) {
  const auto& by_shape = scan_kernels(isa, block.coding().bits).by_shape;
  const auto& kernels = by_shape[queries.size() - 1];
  alignas(64) std::array<std::int32_t, most_queries * most_groups * group_rows> sums;
  alignas(64) std::array<std::int32_t, group_rows> of_rest;
  const auto pass = [&]<bool alone, std::size_t Bytes>() {
    for (std::size_t g = begin; g < end; g += most_groups) {
      const std::size_t n = std::min(most_groups, end - g);
      kernels[n - 1](block.group(g), block.stride(), block.chunks(), queries.data(), sums.data());
      for (std::size_t j = 0; j < n; ++j) {
        const GroupTail& rows = block.tail(g + j);
        const Tail<alone, Bytes> tail(rows, block.errors(g + j));
        for (std::size_t i = 0; i < queries.size(); ++i) {
          GroupBounds bounds;
          if (!tail.reaches(&sums[(i * n + j) * group_rows], queries[i], best[i]->bar(), bounds)) continue;
          if constexpr (alone) {
            by_shape[0][0](block.group(g + j), block.stride(), block.chunks(), queries[i].rest, of_rest.data());
            tail.refine(of_rest.data(), queries[i], bounds);
          }
          best[i]->offer(bounds, rows.ids);
        }
      }
    }
  };
  run_with(isa, [&](Isa known) {
    with_vectors(known, [&]<std::size_t Bytes>() {
      if (block.coding().alone()) return pass.template operator()<true, Bytes>();
      pass.template operator()<false, Bytes>();
    });
  });
}

}  // namespace manyclass
