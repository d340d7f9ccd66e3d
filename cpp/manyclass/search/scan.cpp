// Sums of products of bytes: see the header.
//
// By intrinsics, because the instructions that multiply bytes and add four neighbours, or words and add two, are out of
// the vectoriser's reach: gain over the plain loop in bench/README.md (bench_index.py, test_instruction_sets).
#include "manyclass/search/scan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#ifdef MANYCLASS_AVX2
#include <immintrin.h>
#endif

namespace manyclass {

namespace {

constexpr std::size_t chunk_bytes = group_rows * chunk_dims;

template <int queries, int groups>
void plain(const std::byte* data, std::size_t stride, std::size_t chunks, const QueryCode* query, std::int32_t* sums) {
  for (std::size_t i = 0; i < queries; ++i) {
    for (std::size_t g = 0; g < groups; ++g) {
      std::array<std::int32_t, group_rows> acc;
      acc.fill(query[i].offset);
      const auto* c = reinterpret_cast<const std::uint8_t*>(data + g * stride);
      const std::int16_t* b = query[i].words;
      for (std::size_t k = 0; k < chunks; ++k, c += chunk_bytes, b += chunk_dims) {
        for (std::size_t r = 0; r < group_rows; ++r) {
          for (std::size_t l = 0; l < chunk_dims; ++l) acc[r] += c[r * chunk_dims + l] * b[l];
        }
      }
      std::memcpy(sums + (i * groups + g) * group_rows, acc.data(), sizeof acc);
    }
  }
}

#ifdef MANYCLASS_AVX2

// Half a group (8 rows) at a time: bytes widened to words, pairs multiplied and added, halves added at the end.
template <int queries, int groups>
__attribute__((target("avx2"))) void run_avx2_scan(const std::byte* data, std::size_t stride, std::size_t chunks,
                                                   const QueryCode* query, std::int32_t* sums) {
  for (std::size_t g = 0; g < groups; ++g) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte* c = data + g * stride + half * 32;
      __m256i acc[queries][2];
      for (int i = 0; i < queries; ++i) acc[i][0] = acc[i][1] = _mm256_setzero_si256();
      for (std::size_t k = 0; k < chunks; ++k, c += chunk_bytes) {
        const __m256i low = _mm256_cvtepu8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(c)));
        const __m256i high = _mm256_cvtepu8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(c + 16)));
        for (int i = 0; i < queries; ++i) {
          long long four;
          std::memcpy(&four, query[i].words + k * chunk_dims, sizeof four);
          const __m256i b = _mm256_set1_epi64x(four);
          acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(low, b));
          acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(high, b));
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

template <int queries, int groups>
__attribute__((target("avx512f,avx512bw,avx512vnni"))) void run_avx512_scan(const std::byte* data, std::size_t stride,
                                                                            std::size_t chunks, const QueryCode* query,
                                                                            std::int32_t* sums) {
  __m512i acc[queries][groups];
  for (int i = 0; i < queries; ++i) {
    for (int g = 0; g < groups; ++g) acc[i][g] = _mm512_set1_epi32(query[i].offset);
  }
  for (std::size_t k = 0; k < chunks; ++k) {
    __m512i c[groups];
    for (std::size_t g = 0; g < groups; ++g) c[g] = _mm512_load_si512(data + g * stride + k * chunk_bytes);
    for (int i = 0; i < queries; ++i) {
      std::int32_t four;
      std::memcpy(&four, query[i].bytes + k * chunk_dims, sizeof four);
      const __m512i b = _mm512_set1_epi32(four);
      for (int g = 0; g < groups; ++g) acc[i][g] = _mm512_dpbusd_epi32(acc[i][g], c[g], b);
    }
  }
  for (std::size_t i = 0; i < queries; ++i) {
    for (std::size_t g = 0; g < groups; ++g) {
      _mm512_storeu_si512(sums + (i * groups + g) * group_rows, acc[i][g]);
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

constexpr ScanKernels plain_kernels = table([]<int q, int g>() { return &plain<q, g>; });
#ifdef MANYCLASS_AVX2
constexpr ScanKernels avx2_kernels = table([]<int q, int g>() { return &run_avx2_scan<q, g>; });
constexpr ScanKernels vnni_kernels = table([]<int q, int g>() { return &run_avx512_scan<q, g>; });
#endif

// Bounds of a group's scores; returns how many may reach the bar.
inline int bound(const std::int32_t* sums, const GroupTail& rows, const QueryCode& query, float bar,
                 GroupBounds& bounds) {
  int reach = 0;
  for (std::size_t r = 0; r < group_rows; ++r) {
    const float middle = query.scale * rows.scale[r] * static_cast<float>(sums[r]);
    const float radius = query.coded_norm * rows.error[r] + query.slack * rows.norm[r] + underflow_slack;
    bounds.middle[r] = middle;
    bounds.radius[r] = radius;
    reach += middle + radius >= bar ? 1 : 0;
  }
  return reach;
}

}  // namespace

const ScanKernels& scan_kernels(Isa isa) {
#ifdef MANYCLASS_AVX2
  if (isa == Isa::avx512 && __builtin_cpu_supports("avx512vnni")) return vnni_kernels;
  if (isa >= Isa::avx2) return avx2_kernels;
#else
  (void)isa;
#endif
  return plain_kernels;
}

void scan(const CodeBlock& block, std::size_t begin, std::size_t end, std::span<const QueryCode> queries,
          std::span<Best* const> best, Isa isa) {
  const auto& kernels = scan_kernels(isa).by_shape[queries.size() - 1];
  alignas(64) std::array<std::int32_t, most_queries * most_groups * group_rows> sums;
  run_with(isa, [&] {
    for (std::size_t g = begin; g < end; g += most_groups) {
      const std::size_t n = std::min(most_groups, end - g);
      kernels[n - 1](block.group(g), block.stride(), block.chunks(), queries.data(), sums.data());
      const std::int32_t* of_group = sums.data();
      for (std::size_t i = 0; i < queries.size(); ++i) {
        for (std::size_t j = 0; j < n; ++j, of_group += group_rows) {
          GroupBounds bounds;
          const GroupTail& tail = block.tail(g + j);
          if (bound(of_group, tail, queries[i], best[i]->bar(), bounds) > 0) best[i]->offer(bounds, tail.ids);
        }
      }
    }
  });
}

}  // namespace manyclass
