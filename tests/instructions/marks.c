// Marks of callgrind for a program that is no C program: where it counts, and what the counts are of.
#include <valgrind/callgrind.h>

void begin_count(void);
void end_count(const char* name);

void begin_count(void) {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
}

void end_count(const char* name) {
  CALLGRIND_DUMP_STATS_AT(name);
  CALLGRIND_STOP_INSTRUMENTATION;
}
