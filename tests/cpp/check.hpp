// CHECK for the tests of the core: on whatever NDEBUG says, counts failures and goes on.
#pragma once

#include <atomic>
#include <cstdio>

namespace manyclass::testing {

inline std::atomic<int> failures = 0;

inline void check(bool ok, const char* what, const char* file, int line) {
  if (ok) return;
  ++failures;
  std::fprintf(stderr, "%s:%d: %s is false\n", file, line, what);
}

// The exit status of main.
inline int report() {
  if (failures > 0) std::fprintf(stderr, "%d checks failed\n", failures.load());
  return failures > 0 ? 1 : 0;
}

}  // namespace manyclass::testing

#define CHECK(condition) manyclass::testing::check((condition), #condition, __FILE__, __LINE__)

#define CHECK_THROWS(expression, Error) \
  do {                                  \
    bool thrown = false;                \
    try {                               \
      (void)(expression);               \
    } catch (const Error&) {            \
      thrown = true;                    \
    }                                   \
    CHECK(thrown && #expression);       \
  } while (false)
