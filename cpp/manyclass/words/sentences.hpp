// Training of word vectors: for each pair (x, y) of a centre and a word of its context, a step on h_x and on the output
// rows of y and of a few other words or, in a tree, of the nodes on the path to y.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "manyclass/select/frequency.hpp"
#include "manyclass/step/point_step.hpp"
#include "manyclass/text/huffman.hpp"
#include "manyclass/text/windows.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/weights/embedding_rows.hpp"

namespace manyclass {

struct SkipGramProblem {
  SkipGramText text;
  EmbeddingRows input;   // h_x, V rows
  EmbeddingRows output;  // v_y, V rows; of a tree, its V - 1 inner nodes
};

// Visits are to sentences. Of the settings, the seed, the threads, which race on both tables, and the instruction set
// have an effect. Progress adds up the objective as trained on.

// -log sigma(z_y) - sum_j log sigma(-z_j) over n_negatives draws of `noise`, y among them left out. With `share` all
// pairs of one centre see the same draws.
std::unique_ptr<Trainer> negative_sampling_trainer(const SkipGramProblem& problem, const Settings& settings,
                                                   const AliasTable& noise, Index n_negatives, bool share);

// -log p(y | x) of the tree.
std::unique_ptr<Trainer> hierarchical_trainer(const SkipGramProblem& problem, const Settings& settings,
                                              HuffmanTree tree);

// Any objective of a sampled point. `carried` has a number for each centre word, V of them: where the objective is the
// double sum in Raman et al.'s form, v_x = log Z_x. The normaliser sum_y e^<h_x, v_y> depends on the centre alone, so
// the collapsed objective needs one such number a word and not one a pair.
std::unique_ptr<Trainer> sampled_trainer(const SkipGramProblem& problem, const Settings& settings, Frequency select,
                                         std::unique_ptr<const PointStep> step, std::span<double> carried);

// What is trained, by name: "hierarchical", "negative_sampling", or a solver of sampled points.
struct SkipGramChoice {
  std::string solver = "negative_sampling";
  Index n_negatives = 5;
  double power = 0.75;  // of how often a word occurs, for draws
  bool share = false;
  Options options{};  // the solver's own numbers
};

// `counts` are those of the words. Throws std::invalid_argument where the parts do not fit each other.
std::unique_ptr<Trainer> skip_gram_trainer(const SkipGramProblem& problem, const Settings& settings,
                                           const SkipGramChoice& choice, std::span<const Offset> counts,
                                           std::span<double> carried);

}  // namespace manyclass
