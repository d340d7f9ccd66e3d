// Training of word vectors: for each pair (x, y) of a centre and a word of its context, a step on h_x and on the output
// rows of y and of a few other words or, in a tree, of the nodes on the path to y.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "manyclass/core/simd.hpp"
#include "manyclass/select/frequency.hpp"
#include "manyclass/step/point_step.hpp"
#include "manyclass/text/huffman.hpp"
#include "manyclass/text/windows.hpp"
#include "manyclass/weights/embedding_rows.hpp"

namespace manyclass {

struct SkipGramProblem {
  SkipGramText text;
  EmbeddingRows input;   // h_x, V rows
  EmbeddingRows output;  // v_y, V rows; of a tree, its V - 1 inner nodes
};

struct SkipGramSettings {
  std::uint64_t seed = 0;
  int n_threads = 1;  // above 1 they race on both tables
  Isa isa = Isa::baseline;
};

// Sentences [first, last) of a pass. The step size falls linearly over the tokens of the text.
struct SkipGramStretch {
  int pass;
  std::size_t first, last;
  double eta_begin, eta_end;  // at the first token of the pass and behind its last
  double eta_u;
};

struct SkipGramProgress {
  Offset tokens = 0;  // of the sentences, before sub-sampling
  Offset pairs = 0;
  double loss = 0;        // sum of the objective as trained on, over `loss_pairs`
  Offset loss_pairs = 0;  // of them, those whose loss was taken
  Offset refused = 0;     // pairs whose step was too large to take; see runaway in train/trainer.hpp
};

class SkipGramTrainer {
 public:
  virtual ~SkipGramTrainer() = default;
  virtual SkipGramProgress run(const SkipGramStretch& stretch) = 0;
};

// -log sigma(z_y) - sum_j log sigma(-z_j) over n_negatives draws of `noise`, y among them left out. With `share` all
// pairs of one centre see the same draws.
std::unique_ptr<SkipGramTrainer> negative_sampling_trainer(const SkipGramProblem& problem,
                                                           const SkipGramSettings& settings, const AliasTable& noise,
                                                           Index n_negatives, bool share);

// -log p(y | x) of the tree.
std::unique_ptr<SkipGramTrainer> hierarchical_trainer(const SkipGramProblem& problem, const SkipGramSettings& settings,
                                                      HuffmanTree tree);

// Any objective of a sampled point. `carried` has a number for each centre word, V of them: where the objective is the
// double sum in Raman et al.'s form, v_x = log Z_x. The normaliser sum_y e^<h_x, v_y> depends on the centre alone, so
// the collapsed objective needs one such number a word and not one a pair.
std::unique_ptr<SkipGramTrainer> sampled_trainer(const SkipGramProblem& problem, const SkipGramSettings& settings,
                                                 Frequency select, std::unique_ptr<const PointStep> step,
                                                 std::span<double> carried);

}  // namespace manyclass
