// The collapsed form of a text: how often each pair (centre x, context y) occurs.
//
// With n(x, y) for these counts, the skip-gram objective, the mean over pairs of log Z_x - z_xy, is
//   sum_x q_x (log Z_x - sum_y q_{y|x} z_xy),   q_x = n(x) / n,   q_{y|x} = n(x, y) / n(x).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manyclass/text/windows.hpp"

namespace manyclass {

struct CooccurrenceSettings {
  std::uint64_t seed = 0;  // of the sub-sampling, which is that of pass 0 of training
  int n_threads = 1;
  std::size_t memory = 0;  // bytes for counting, without the result
  std::string folder;      // takes the files of what does not fit into `memory`
};

// Row x has the words y in ascending order and their counts. Where windows shrink, two words d apart are a pair with
// probability (w - d + 1) / w. The counts are in units of 1 / w: whole numbers, so that sums over them are exact.
struct Cooccurrences {
  std::vector<Offset> starts;  // V + 1
  std::vector<Index> contexts;
  std::vector<Offset> counts;
  std::size_t n_spilled = 0;  // how often a thread's table was full and went to a file
};

// Throws std::runtime_error where a file cannot be written or read.
Cooccurrences count_cooccurrences(const SkipGramText& text, Index n_words, const CooccurrenceSettings& settings);

}  // namespace manyclass
