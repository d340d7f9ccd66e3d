// The collapsed skip-gram objective: the shares that pairs of words have in a text, and exact losses of word vectors.
//
// The mean over all pairs of a centre x and a context y of -log p(y | x) is
//
//   F = sum_x q_x [log sum_y' e^{h_x.v_y'} - sum_y q_{y|x} h_x.v_y],
//
// with q_x the share of the pairs that x is the centre of, and q_{y|x} that of y among its contexts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/text/cooccurrence.hpp"
#include "manyclass/text/huffman.hpp"

namespace manyclass {

struct PairShares {
  std::vector<Offset> starts;   // row x of q_{y|x} stands at [starts[x], starts[x + 1])
  std::vector<Index> words;     // ascending in each row
  std::vector<float> of_words;  // q_{y|x}: rows that are not empty sum to 1
  std::vector<double> centres;  // q_x
  double n_pairs = 0;           // where windows shrink, their expected number
  std::size_t n_spilled = 0;    // how often a table of counts went to a file

  std::size_t n_words() const { return centres.size(); }
  CsrView contexts() const { return {starts, words, of_words, static_cast<Index>(n_words())}; }
};

// Counts are in units of 1 / unit of a pair. Without a pair all shares are 0.
PairShares shares_of(Cooccurrences counts, Offset unit);

// Throws std::invalid_argument where the shares are not a square matrix with a number for each of its rows.
void check(const PairShares& pairs);

// sum_x q_x q_{y|x} of each y: the share of the pairs that it is the context of.
std::vector<double> shares_as_contexts(const PairShares& pairs);

// Rows h of words as centres and v of words as contexts, of `width` numbers each.
struct WordTables {
  std::span<float> input, output;
  std::size_t width = 0;

  std::size_t n_inputs() const { return input.size() / width; }
  std::size_t n_outputs() const { return output.size() / width; }
  std::span<float> h(std::size_t x) const { return input.subspan(x * width, width); }
  std::span<float> v(std::size_t y) const { return output.subspan(y * width, width); }
};

// a.b in double precision.
double product(std::span<const float> a, std::span<const float> b);

// Adds a times `row` to `sums`.
inline void add_times(float a, std::span<const float> row, std::span<float> sums) {
  for (std::size_t j = 0; j < row.size(); ++j) sums[j] += a * row[j];
}

// log Z_x of each word of the input table, 0 for those that are not in `rows`, which are distinct.
std::vector<double> log_normalizers(const WordTables& tables, std::span<const Index> rows, int n_threads);

// log Z_x - sum_y q_{y|x} h_x.v_y of some centres, which are distinct.
std::vector<double> pair_losses(const PairShares& pairs, const WordTables& tables, std::span<const Index> rows,
                                int n_threads);

// -sum_y q_{y|x} log p(y | x) of some centres, p being that of a Huffman tree whose nodes have the output vectors.
std::vector<double> tree_losses(const PairShares& pairs, const WordTables& tables, const HuffmanTree& tree,
                                std::span<const Index> rows, int n_threads);

// Words drawn with replacement, with probabilities q_x: distinct words, ascending, and the share of the draws of each.
struct DrawnWords {
  std::vector<Index> words;
  std::vector<double> shares;
};
DrawnWords draw_words(std::span<const double> q, std::size_t n_draws, Rng rng);
// All words that can be drawn, with q_x.
DrawnWords words_of(std::span<const double> q);

// F: the mean over the pairs of log Z_x - h_x.v_y, or with a tree that of its losses. `n_draws` centres stand for all
// of them; 0: it is exact.
double collapsed_objective(const PairShares& pairs, const WordTables& tables, const HuffmanTree* tree,
                           std::size_t n_draws, std::uint64_t seed, int n_threads);

// Pairs of a word and another one at most `window` places away in its sentence, and log sum_k e^{h_x.v_k} - h_x.v_y.
struct DrawnPairs {
  std::vector<Index> centres, contexts;
};
// Draws n places of the text; a sentence of one word gives no pair.
DrawnPairs draw_pairs(const SkipGramText& text, std::size_t n, Rng rng);
std::vector<double> pair_losses(const WordTables& tables, std::span<const Index> centres,
                                std::span<const Index> contexts, int n_threads);

// The losses of drawn pairs, in nats.
struct MeanLoss {
  std::size_t n_pairs = 0;
  double mean = 0, standard_error = 0;
};
MeanLoss mean_pair_loss(const SkipGramText& text, const WordTables& tables, std::size_t n, Rng rng);

}  // namespace manyclass
