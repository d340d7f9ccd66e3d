// One source, several instruction sets: run_with(isa, f) runs f, compiled for isa with everything that it calls
// inlined. Where f takes an Isa, it is given `isa` as a constant, so that what depends on it is decided by the
// compiler.
//
// `flatten` pulls the whole call tree of f into a function whose target is the wider set, so that plain loops are
// vectorised for it. Clang's `flatten` stops at the first calls, so CMakeLists.txt raises its threshold of inlining.
// What stays out of line (the standard library, libm) is never compiled for a wider set. So the linker cannot put an
// AVX-512 copy of a shared template into code that an older processor runs.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace manyclass {

enum class Isa { baseline, avx2, avx512 };

template <Isa isa, class F>
inline void call_with(const F& f) {
  if constexpr (std::is_invocable_v<const F&, Isa>) {
    f(isa);
  } else {
    f();
  }
}

#if defined(__GNUC__) && defined(__x86_64__)
#ifdef __clang__
#define MANYCLASS_WIDE_VECTORS ""  // Clang has no such word, and takes the widest vectors of a target anyway
#else
#define MANYCLASS_WIDE_VECTORS ",prefer-vector-width=512"
#endif
#define MANYCLASS_AVX2 __attribute__((target("avx2,fma,bmi,bmi2"), flatten, noinline))
#define MANYCLASS_AVX512                                                                                         \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi,bmi2" MANYCLASS_WIDE_VECTORS), \
                 flatten, noinline))

inline Isa isa_of_processor() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
    return Isa::avx512;
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Isa::avx2 : Isa::baseline;
}

template <class F>
MANYCLASS_AVX2 void run_avx2(const F& f) {
  call_with<Isa::avx2>(f);
}

template <class F>
MANYCLASS_AVX512 void run_avx512(const F& f) {
  call_with<Isa::avx512>(f);
}

// A function of its own, so that it is compiled once for all places that call run_with by the same f.
template <class F>
__attribute__((noinline)) void run_baseline(const F& f) {
  call_with<Isa::baseline>(f);
}

// `isa` must not exceed best_isa(). There is no copy for a set above `widest`, in whose place that runs: where wider
// vectors gain less than 5 % they are not worth their compilation (bench/figures/isa.md).
template <Isa widest = Isa::avx512, class F>
void run_with(Isa isa, const F& f) {
  if constexpr (widest == Isa::avx512) {
    if (isa == Isa::avx512) return run_avx512(f);
  }
  isa == Isa::baseline ? run_baseline(f) : run_avx2(f);
}
#else
inline Isa isa_of_processor() { return Isa::baseline; }

template <Isa = Isa::avx512, class F>
void run_with(Isa, const F& f) {
  call_with<Isa::baseline>(f);
}
#endif

inline const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::baseline:
      break;
  }
  return "baseline";
}

// What code runs with: the widest set of this processor that is no wider than the environment variable MANYCLASS_ISA
// says, by which a processor can be measured and tested as if it were an older one.
inline Isa best_isa() {
  static const Isa best = [] {
    // Read once; nothing here writes the environment.
    const char* const value = std::getenv("MANYCLASS_ISA");  // NOLINT(concurrency-mt-unsafe)
    const std::string most = value == nullptr || *value == '\0' ? "avx512" : value;
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
      if (most == name_of(isa)) return std::min(isa, isa_of_processor());
    }
    throw std::invalid_argument("MANYCLASS_ISA is '" + most + "'; it must be one of 'baseline', 'avx2', 'avx512'");
  }();
  return best;
}

}  // namespace manyclass
