// Large tables in huge pages: what reads them waits less often for the address of a page.
//
// Memory is asked for as NumPy does for its arrays: from so many bytes on, unless an environment variable is "0".
// Systems without such advice, and kernels that decline it, leave the memory as it is. To write huge pages for the
// first time costs more than to write others, so that this is for what is read many times (bench/decisions.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace manyclass {

// To be called before the memory is written: pages are made when they are first touched.
inline void ask_for_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t n_bytes) noexcept {
#ifdef MADV_HUGEPAGE
  constexpr std::size_t fewest = std::size_t{1} << 22;  // two huge pages, one of which is whole wherever they begin
  static const bool wanted = [] {
    // Read once; nothing here writes the environment.
    const char* const value = std::getenv("MANYCLASS_HUGE_PAGES");  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr || std::string_view(value) != "0";
  }();
  if (n_bytes < fewest || !wanted) return;
  constexpr std::uintptr_t page = std::uintptr_t{1} << 16;  // the largest ordinary page: advice begins with a whole one
  const std::size_t skipped = (page - reinterpret_cast<std::uintptr_t>(memory) % page) % page;
  // An error means that there are none.
  madvise(static_cast<std::byte*>(memory) + skipped, n_bytes - skipped, MADV_HUGEPAGE);
#endif
}

}  // namespace manyclass
