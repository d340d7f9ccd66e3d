// Greedy message passing: its options, its memory, and when a search has found enough.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "manyclass/objective/label_loss.hpp"
#include "manyclass/objective/point.hpp"
#include "manyclass/search/decomposed_index.hpp"

namespace manyclass {

enum class GmpStep { full, frank_wolfe };
enum class Rest { masked, zero };
enum class GmpAnswer { blocks, active };
// How scores travel: "exact_scores" (message_passing.hpp) or as Algorithm 2 is printed (printed_messages.hpp).
enum class GmpRule { exact_scores, printed };

struct GmpOptions {
  FindOptions find;  // S_j
  // Search again for twice as many classes in twice as many clusters while those found are not enough (enough() below).
  bool until_enough = false;
  int n_iter = 1;  // T
  GmpStep step = GmpStep::full;
  float tolerance = 1e-3F;  // tau_2, and the share of Z that cross-entropy may do without
  Rest rest = Rest::masked;
  GmpAnswer answer = GmpAnswer::blocks;
  GmpRule rule = GmpRule::exact_scores;
  bool list_rest = true;  // whether the printed rule lists the classes that count as 0; else GmpMemory::rest has theirs
};

// Kept between calls of one thread: no call allocates once the vectors are as long as the longest point needs.
struct GmpMemory {
  struct Block {
    std::vector<Index> ids;     // found here and never active,
    std::vector<float> scores;  // with their s_j
    std::vector<float> exact;   // s_j of the classes with exact scores: the labels, then what was active once
    float lowest = 0;           // s_j of the worst class found, where one was
  };

  FindMemory find;
  LossMemory loss;
  std::vector<Scored> found;
  std::vector<Block> blocks;
  std::vector<Index> exact_ids;
  std::vector<float> exact;  // z
  std::vector<char> active;  // of exact_ids
  std::vector<Index> slots;  // by class: place in the answer, or -1 (for all, between calls)
  std::vector<Index> newcomers;
  std::vector<float> new_scores;
  std::vector<float> negatives;
  std::vector<float> positive_gradient;
  std::vector<float> negative_gradient;
  std::vector<double> known_gradient;
  std::vector<float> known;  // by the printed rule: s_j of the classes found somewhere, a block behind the other

  // Of the last call:
  std::size_t n_found = 0;  // classes found, over all blocks
  std::size_t n_exact = 0;  // classes whose exact score was computed
  bool read_all = false;    // whether the last search of each block read all clusters
  double rest = 0;          // the gradient of each class that is not listed, by the printed rule
  bool certified = false;   // whether what the classes that are not listed add is known to be negligible: see certify()
};

// Whether the classes found are enough where those not found score no higher and are masked.
//
// Cross-entropy: n others of at most the lowest score found add up to at most the share `tolerance` of Z, for which the
// sum over what was found is a lower bound (the stopping rule of Yen et al., section 4). Margins: their own rule, by
// which the gradient is then that of all classes.
inline bool enough(const LabelLoss& loss, const LabelGradient& g, std::size_t n_others, float tolerance) {
  if (n_others == 0) return true;
  if (g.negatives.empty()) return false;
  if (std::holds_alternative<CrossEntropy>(loss)) {
    // g = |P| p for a wrong class
    const double lowest = static_cast<double>(std::ranges::min(g.negatives));
    return static_cast<double>(n_others) * lowest <=
           static_cast<double>(tolerance) * static_cast<double>(g.positives.size());
  }
  return std::visit([&](const auto& one) { return one.top_is_enough(g); }, loss);
}

}  // namespace manyclass
