// Gradients of the collapsed skip-gram objective F (pair_shares.hpp) in the tables of word vectors, exact or by
// searches.
//
// `MaskedGradients` is the rule of Yen et al. (ICML 2018, section 5.3): each centre word searches for its best Q words,
// and the softmax is over these and its observed contexts. Right after negative sampling the best twentieth of all
// words holds little more than a twentieth of the normaliser, so that this is the gradient of another function.
//
// `SampledGradients` leaves no word out, and has no search for each centre. Centres of similar direction are a group,
// which searches once, with its mean. For h_x, a sample of the words not found stands for the rest; for v_y, a sample
// of the centres that did not find y. The estimate of the softmax's sum is unbiased; the gradient divides by that sum,
// and so has a bias which falls with the number of words drawn (in h, a quarter of the gradient for 10 of 200 words).
// All are dense products of few rows: 2 Q / K of the scores of all pairs, as fast as those.
#pragma once

#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "manyclass/search/approximate_losses.hpp"
#include "manyclass/words/pair_shares.hpp"
#include "manyclass/words/row_groups.hpp"
#include "manyclass/words/row_softmax.hpp"

namespace manyclass {

// The gradient of a table, and what a step along it must lower: a number for each row of h, or a few for all of v.
struct TableGradient {
  std::vector<double> losses;
  std::vector<float> gradient;
};

// Exact gradients. Those by searches override what they estimate.
class TableGradients {
 public:
  // Throws std::invalid_argument where the tables do not have a row for each word.
  TableGradients(const PairShares& pairs, WordTables tables, int n_threads);
  virtual ~TableGradients() = default;

  // Takes over the tables as they are at the beginning of a step; here nothing depends on them.
  virtual void follow() {}

  // The loss of each centre word and its gradient in h_x, that of F divided by q_x; F, and its gradient in each v_y
  // divided by y's share of the contexts.
  virtual TableGradient input_gradient();
  virtual TableGradient output_gradient();

  // What a step of h_x must lower: the loss of x, the output table being that of `input_gradient`.
  std::vector<double> losses() const;
  // What a step of the output table must lower, all of them; the last one is F, the input table being that of
  // `output_gradient`.
  virtual std::vector<double> values() const { return {value()}; }
  double value() const { return value_of(softmax({})); }

  // The gradient of a step with what it must lower, at no further cost where the gradient is exact.
  virtual TableGradient before_input_step() { return input_gradient(); }
  virtual TableGradient before_output_step() { return output_gradient(); }

  const WordTables& tables() const { return tables_; }

 protected:
  // Adds to `sums` and returns log Z_x of each word of the input table, 0 where it is no centre.
  std::vector<double> softmax(RowSums sums) const;
  void observe_input();   // sum_y q_{y|x} v_y of each centre word
  void observe_output();  // sum_x q_x q_{y|x} h_x of each context word
  double value_of(const std::vector<double>& log_z) const;
  std::vector<float> per_context(std::span<const double> gradient) const;
  // Adds to the gradient in the output table what the groups leave out; here nothing is.
  virtual void add_rest(std::span<double>) {}

  const PairShares& pairs_;
  WordTables tables_;
  int n_threads_;
  std::vector<Index> centres_;
  RowGroups groups_;

 private:
  std::vector<Offset> all_;  // the one group of all centres
  std::vector<double> shares_as_contexts_;
  std::vector<float> target_, observed_;  // of the table that stays while the other one moves
};

// An index of the first `dim` columns of the output table, and how far a search in it goes.
struct WordSearch {
  std::variant<const ClusterIndex*, const DecomposedIndex*> index;
  std::size_t n_probe = 1;
  std::size_t budget = 1;  // Q
  std::size_t dim = 0;
  // Of a DecomposedIndex: whether what its blocks find is joined by messages (Yen et al. 2018, Algorithm 2) in place of
  // exact scores, and whether that is done as it is printed (search/printed_messages.hpp).
  bool messages = false, printed = false;
};

// Gradients by searches in an index that the caller lets follow the output table.
class SearchedGradients : public TableGradients {
 public:
  SearchedGradients(const PairShares& pairs, WordTables tables, WordSearch search, int n_threads)
      : TableGradients(pairs, tables, n_threads), search_(search) {}

  // Uses the index as it is from now on.
  void search_in(std::variant<const ClusterIndex*, const DecomposedIndex*> index, std::size_t n_probe);

 protected:
  WordSearch search_;
};

// Each centre's best Q words and its contexts, the others left out. F is then that of the words found; a step must
// lower the exact losses, since no step could come below those of the words found.
class MaskedGradients : public SearchedGradients {
 public:
  MaskedGradients(const PairShares& pairs, WordTables tables, WordSearch search, int n_threads);

  TableGradient input_gradient() override;
  TableGradient output_gradient() override;
  TableGradient before_input_step() override;
  TableGradient before_output_step() override;

 private:
  // Calls use(x, loss, ids, values, rest) for each centre x with its loss by the words found and the gradient in z of
  // the words that are listed, contexts weighted alike, and of each word that is not: 0 but for the printed messages.
  template <class Use>
  void each_found(const Use& use) const;
  // Adds sum_y (1 / |P| - q_{y|x}) v_y: an index counts each of the contexts P once, and the objective by q.
  void add_shift(Index x, std::span<float> sums) const;
  float shift_of(Index x, float share) const;
};

// Q words that a search finds for each group of centres, and samples that stand for the rest.
//
// A group's sample of words is a part of a random order of all, the next group's the next part, and so on around. The
// gradient in v_y is not that of these: few groups draw y, and p(y | x) of words that are not found is much the same
// for all x, so that it is estimated from some drawn centres with all their scores. A step of h_x must lower the
// estimate of x's loss, and one of the output table that of F and the exact losses of drawn centre words.
class SampledGradients : public SearchedGradients {
 public:
  // Centres of one cluster are in groups of at most `group`, whose searches are one.
  SampledGradients(const PairShares& pairs, WordTables tables, WordSearch search, std::size_t group, std::uint64_t seed,
                   int n_threads);

  void follow() override;
  TableGradient before_output_step() override;
  std::vector<double> values() const override;

  // Searches and draws words for each group; what follows is about these until the next time.
  void draw();

 private:
  Rng next_rng() { return Rng({seed_, 0}, n_drawn_++); }
  double exact_loss_of_tried() const;
  void add_rest(std::span<double> total) override;

  std::size_t group_;
  std::uint64_t seed_, n_drawn_ = 0;
  DrawnWords tried_;
  std::unique_ptr<ClusterIndex> grouping_;
  GroupedRows grouped_;
  GroupLists lists_;
  std::vector<std::size_t> group_of_;  // each word of the input table that is a centre
};

}  // namespace manyclass
