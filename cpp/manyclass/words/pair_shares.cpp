// See pair_shares.hpp.
#include "manyclass/words/pair_shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "manyclass/core/isa.hpp"
#include "manyclass/words/row_softmax.hpp"

namespace manyclass {

namespace {

RowSoftmax question_of(const WordTables& tables, std::span<const Index> rows, std::span<const Offset> starts,
                       int n_threads) {
  RowSoftmax question;
  question.input = tables.input;
  question.output = tables.output;
  question.width = tables.width;
  question.groups.rows = rows;
  question.groups.row_starts = starts;
  question.n_threads = n_threads;
  question.isa = best_isa();
  return question;
}

}  // namespace

PairShares shares_of(Cooccurrences counts, Offset unit) {
  PairShares pairs;
  pairs.n_spilled = counts.n_spilled;
  const auto total = static_cast<double>(std::accumulate(counts.counts.begin(), counts.counts.end(), Offset{0}));
  pairs.n_pairs = total / static_cast<double>(unit);
  pairs.centres.resize(counts.starts.size() - 1);
  pairs.of_words.resize(counts.counts.size());
  for (std::size_t x = 0; x < pairs.n_words(); ++x) {
    const auto begin = static_cast<std::size_t>(counts.starts[x]), end = static_cast<std::size_t>(counts.starts[x + 1]);
    Offset n = 0;
    for (std::size_t i = begin; i < end; ++i) n += counts.counts[i];
    for (std::size_t i = begin; i < end; ++i) {
      pairs.of_words[i] = static_cast<float>(static_cast<double>(counts.counts[i]) / static_cast<double>(n));
    }
    if (total > 0) pairs.centres[x] = static_cast<double>(n) / total;
  }
  pairs.starts = std::move(counts.starts);
  pairs.words = std::move(counts.contexts);
  return pairs;
}

void check(const PairShares& pairs) {
  if (pairs.starts.size() != pairs.n_words() + 1) {
    throw std::invalid_argument("the contexts do not have a row for each centre");
  }
  check(pairs.contexts());
}

std::vector<double> shares_as_contexts(const PairShares& pairs) {
  std::vector<double> shares(pairs.n_words());
  for (std::size_t x = 0; x < pairs.n_words(); ++x) {
    const SparseRow row = pairs.contexts().row(static_cast<Index>(x));
    for (std::size_t i = 0; i < row.indices.size(); ++i) {
      shares[static_cast<std::size_t>(row.indices[i])] += static_cast<double>(row.values[i]) * pairs.centres[x];
    }
  }
  return shares;
}

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += static_cast<double>(a[j]) * static_cast<double>(b[j]);
  return sum;
}

std::vector<double> log_normalizers(const WordTables& tables, std::span<const Index> rows, int n_threads) {
  const Offset starts[] = {0, static_cast<Offset>(rows.size())};
  std::vector<double> log_z(tables.n_inputs());
  add_row_softmax(question_of(tables, rows, starts, n_threads), {.log_z = log_z});
  return log_z;
}

std::vector<double> pair_losses(const PairShares& pairs, const WordTables& tables, std::span<const Index> rows,
                                int n_threads) {
  const std::vector<double> log_z = log_normalizers(tables, rows, n_threads);
  std::vector<double> losses(rows.size());
  std::vector<float> target(tables.width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto x = static_cast<std::size_t>(rows[i]);
    const SparseRow row = pairs.contexts().row(rows[i]);
    std::ranges::fill(target, 0.0F);
    for (std::size_t w = 0; w < row.indices.size(); ++w) {
      add_times(row.values[w], tables.v(static_cast<std::size_t>(row.indices[w])), target);
    }
    losses[i] = log_z[x] - product(tables.h(x), target);
  }
  return losses;
}

std::vector<double> tree_losses(const PairShares& pairs, const WordTables& tables, const HuffmanTree& tree,
                                std::span<const Index> rows, int n_threads) {
  std::vector<double> losses(rows.size());
  const RowSoftmax question = question_of(tables, rows, {}, n_threads);
  tree_losses(question, {tree.starts, tree.nodes, tree.signs}, pairs.contexts(), losses);
  return losses;
}

DrawnWords words_of(std::span<const double> q) {
  DrawnWords all;
  for (std::size_t x = 0; x < q.size(); ++x) {
    if (q[x] == 0) continue;
    all.words.push_back(static_cast<Index>(x));
    all.shares.push_back(q[x]);
  }
  return all;
}

DrawnWords draw_words(std::span<const double> q, std::size_t n_draws, Rng rng) {
  std::vector<double> ends(q.size());
  std::partial_sum(q.begin(), q.end(), ends.begin());
  if (ends.empty() || !(ends.back() > 0)) throw std::invalid_argument("no word can be drawn");
  std::vector<std::size_t> times(q.size());
  for (std::size_t i = 0; i < n_draws; ++i) {
    // A product that rounds up to the sum would be behind the last word.
    const auto at = std::upper_bound(ends.begin(), ends.end(), rng.uniform() * ends.back());
    ++times[static_cast<std::size_t>(std::min(at - ends.begin(), static_cast<std::ptrdiff_t>(q.size()) - 1))];
  }
  DrawnWords drawn;
  for (std::size_t x = 0; x < q.size(); ++x) {
    if (times[x] == 0) continue;
    drawn.words.push_back(static_cast<Index>(x));
    drawn.shares.push_back(static_cast<double>(times[x]) / static_cast<double>(n_draws));
  }
  return drawn;
}

double collapsed_objective(const PairShares& pairs, const WordTables& tables, const HuffmanTree* tree,
                           std::size_t n_draws, std::uint64_t seed, int n_threads) {
  DrawnWords rows;
  if (n_draws > 0) {
    rows = draw_words(pairs.centres, n_draws, Rng({seed, 0}, 0));
  } else {
    rows = words_of(pairs.centres);
  }
  const std::vector<double> losses = tree == nullptr ? pair_losses(pairs, tables, rows.words, n_threads)
                                                     : tree_losses(pairs, tables, *tree, rows.words, n_threads);
  return std::inner_product(losses.begin(), losses.end(), rows.shares.begin(), 0.0);
}

DrawnPairs draw_pairs(const SkipGramText& text, std::size_t n, Rng rng) {
  DrawnPairs pairs;
  const auto n_places = static_cast<std::uint32_t>(std::min<std::size_t>(text.tokens.size(), 0xffffffffU));
  for (std::size_t i = 0; i < n && n_places > 0; ++i) {
    const std::size_t place = rng.below(n_places);
    const auto next = std::upper_bound(text.sentences.begin(), text.sentences.end(), static_cast<Offset>(place));
    const auto begin = static_cast<std::size_t>(*(next - 1)), end = static_cast<std::size_t>(*next);
    const Window window = window_around(place - begin, static_cast<std::size_t>(text.window), end - begin);
    const auto others = static_cast<std::uint32_t>(window.end - window.begin - 1);
    if (others == 0) continue;
    std::size_t other = begin + window.begin + rng.below(others);
    if (other >= place) ++other;
    pairs.centres.push_back(text.tokens[place]);
    pairs.contexts.push_back(text.tokens[other]);
  }
  return pairs;
}

std::vector<double> pair_losses(const WordTables& tables, std::span<const Index> centres,
                                std::span<const Index> contexts, int n_threads) {
  std::vector<Index> rows(centres.begin(), centres.end());
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const std::vector<double> log_z = log_normalizers(tables, rows, n_threads);
  std::vector<double> losses(centres.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto x = static_cast<std::size_t>(centres[i]), y = static_cast<std::size_t>(contexts[i]);
    losses[i] = log_z[x] - product(tables.h(x), tables.v(y));
  }
  return losses;
}

MeanLoss mean_pair_loss(const SkipGramText& text, const WordTables& tables, std::size_t n, Rng rng) {
  const DrawnPairs pairs = draw_pairs(text, n, rng);
  const std::vector<double> losses = pair_losses(tables, pairs.centres, pairs.contexts, 1);
  MeanLoss found;
  found.n_pairs = losses.size();
  if (losses.empty()) return found;
  const auto size = static_cast<double>(losses.size());
  for (const double loss : losses) found.mean += loss / size;
  double squares = 0;
  for (const double loss : losses) squares += (loss - found.mean) * (loss - found.mean);
  found.standard_error = std::sqrt(squares) / size;
  return found;
}

}  // namespace manyclass
