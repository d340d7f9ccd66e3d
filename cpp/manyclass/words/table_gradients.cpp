// See table_gradients.hpp.
#include "manyclass/words/table_gradients.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "manyclass/core/isa.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/search/results.hpp"

namespace manyclass {

namespace {

constexpr std::size_t block_floats = 1 << 23;  // of found scores at a time: 32 MB
constexpr std::size_t rows_together = 64;      // that a thread takes at once
constexpr int k_means_iterations = 10;
constexpr std::size_t sample_per_cluster = 256;
constexpr std::size_t blocks_find_at_least = 100;  // a block finds a hundredth of the words, or Q if that is more
// Centres on which a step of the output table is tried: before and after are of the same ones, so that their difference
// is known far better than either.
constexpr std::size_t n_tried = 256;

template <class F>
void each_row(int n_threads, std::size_t n, const F& f) {
  parallel_for(n_threads, (n + rows_together - 1) / rows_together, [&](std::size_t piece) {
    for (std::size_t i = piece * rows_together; i < std::min(n, (piece + 1) * rows_together); ++i) f(i);
  });
}

// The first `dim` columns of some rows.
std::vector<float> columns_of(std::span<const float> table, std::size_t width, std::span<const Index> rows,
                              std::size_t dim) {
  std::vector<float> columns;
  columns.reserve(rows.size() * dim);
  for (const Index row : rows) {
    const auto of_row = table.subspan(static_cast<std::size_t>(row) * width, dim);
    columns.insert(columns.end(), of_row.begin(), of_row.end());
  }
  return columns;
}

// What a masked search in blocks does with its finds. "decomposed": whatever the blocks find has its exact score, as in
// the last line of Algorithm 1; no tolerance, which as a share of the normaliser of the words found may be much of
// their gradient. "messages": after Algorithm 2 of Yen et al. 2018, one round of steps 2 / (t + 2), for words with a
// gradient above their tau_2, with exact scores of active words; or as it is printed. search/printed_messages.hpp has
// the differences.
GmpOptions options_of(const WordSearch& search) {
  GmpOptions options{.find = {search.budget, 0, search.n_probe, best_isa()}};
  options.n_iter = std::holds_alternative<const DecomposedIndex*>(search.index) ? 1 : 0;
  options.tolerance = search.messages ? 1e-3F : 0;
  options.step = search.messages ? GmpStep::frank_wolfe : GmpStep::full;
  if (options.n_iter > 0 && !search.messages) options.answer = GmpAnswer::active;
  if (search.printed) {
    options.rule = GmpRule::printed;
    options.rest = Rest::zero;
    options.list_rest = false;
  }
  return options;
}

std::size_t n_searches(const WordSearch& search) {
  const auto* const blocks = std::get_if<const DecomposedIndex*>(&search.index);
  return blocks == nullptr ? 1 : (*blocks)->n_blocks();
}

}  // namespace

TableGradients::TableGradients(const PairShares& pairs, WordTables tables, int n_threads)
    : pairs_(pairs),
      tables_(tables),
      n_threads_(n_threads),
      centres_(words_of(pairs.centres).words),
      all_{0, static_cast<Offset>(centres_.size())},
      shares_as_contexts_(manyclass::shares_as_contexts(pairs)),
      target_(tables.input.size()),
      observed_(tables.output.size()) {
  if (tables.n_inputs() != pairs.n_words() || tables.n_outputs() != pairs.n_words()) {
    throw std::invalid_argument("the tables do not have a row for each word");
  }
  groups_.rows = centres_;
  groups_.row_starts = all_;
}

std::vector<double> TableGradients::softmax(RowSums sums) const {
  std::vector<double> log_z(tables_.n_inputs());
  sums.log_z = log_z;
  add_row_softmax({tables_.input, tables_.output, tables_.width, groups_, n_threads_, best_isa()}, sums);
  return log_z;
}

void TableGradients::observe_input() {
  target_.assign(tables_.input.size(), 0);
  each_row(n_threads_, pairs_.n_words(), [&](std::size_t x) {
    const SparseRow row = pairs_.contexts().row(static_cast<Index>(x));
    const std::span<float> sums = std::span(target_).subspan(x * tables_.width, tables_.width);
    for (std::size_t i = 0; i < row.indices.size(); ++i) {
      add_times(row.values[i], tables_.v(static_cast<std::size_t>(row.indices[i])), sums);
    }
  });
}

void TableGradients::observe_output() {
  observed_.assign(tables_.output.size(), 0);
  std::vector<float> weighted(tables_.width);
  for (const Index x : centres_) {
    const std::span<const float> h = tables_.h(static_cast<std::size_t>(x));
    const double q = pairs_.centres[static_cast<std::size_t>(x)];
    for (std::size_t j = 0; j < h.size(); ++j) weighted[j] = static_cast<float>(static_cast<double>(h[j]) * q);
    const SparseRow row = pairs_.contexts().row(x);
    for (std::size_t i = 0; i < row.indices.size(); ++i) {
      const auto y = static_cast<std::size_t>(row.indices[i]);
      add_times(row.values[i], weighted, std::span(observed_).subspan(y * tables_.width, tables_.width));
    }
  }
}

std::vector<float> TableGradients::per_context(std::span<const double> gradient) const {
  std::vector<float> divided(gradient.size());
  for (std::size_t i = 0; i < divided.size(); ++i) {
    const double share = shares_as_contexts_[i / tables_.width];
    if (share > 0) divided[i] = static_cast<float>(gradient[i] / share);
  }
  return divided;
}

double TableGradients::value_of(const std::vector<double>& log_z) const {
  double value = 0;
  for (std::size_t x = 0; x < log_z.size(); ++x) value += pairs_.centres[x] * log_z[x];
  return value - product(observed_, tables_.output);
}

std::vector<double> TableGradients::losses() const {
  std::vector<double> losses = softmax({});
  for (std::size_t x = 0; x < losses.size(); ++x) {
    losses[x] -= product(tables_.h(x), std::span(target_).subspan(x * tables_.width, tables_.width));
  }
  return losses;
}

TableGradient TableGradients::input_gradient() {
  observe_input();
  TableGradient found;
  found.gradient.resize(target_.size());
  std::ranges::transform(target_, found.gradient.begin(), [](float t) { return -t; });
  found.losses = softmax({.input_gradient = found.gradient});
  for (std::size_t x = 0; x < found.losses.size(); ++x) {
    found.losses[x] -= product(tables_.h(x), std::span(target_).subspan(x * tables_.width, tables_.width));
  }
  return found;
}

TableGradient TableGradients::output_gradient() {
  observe_output();
  std::vector<double> total(observed_.size());
  std::ranges::transform(observed_, total.begin(), [](float o) { return -static_cast<double>(o); });
  const std::vector<double> log_z = softmax({.weights = pairs_.centres, .output_gradient = total});
  add_rest(total);
  return {{value_of(log_z)}, per_context(total)};
}

void SearchedGradients::search_in(std::variant<const ClusterIndex*, const DecomposedIndex*> index,
                                  std::size_t n_probe) {
  const auto [n_rows, n_features] =
      std::visit([](const auto* one) { return std::pair(one->n_rows(), one->n_features()); }, index);
  if (n_rows != tables_.n_outputs() || n_features != search_.dim || search_.dim > tables_.width) {
    throw std::invalid_argument("the index is not one of the output table");
  }
  search_.index = index;
  search_.n_probe = n_probe;
}

MaskedGradients::MaskedGradients(const PairShares& pairs, WordTables tables, WordSearch search, int n_threads)
    : SearchedGradients(pairs, tables, search, n_threads) {}

template <class Use>
void MaskedGradients::each_found(const Use& use) const {
  std::size_t most = 0;
  for (const Index x : centres_) most = std::max(most, pairs_.contexts().row(x).indices.size());
  const std::size_t step = std::max<std::size_t>(1, block_floats / (search_.budget * n_searches(search_) + most));
  for (std::size_t first = 0; first < centres_.size(); first += step) {
    const auto rows = std::span(centres_).subspan(first, std::min(step, centres_.size() - first));
    const std::vector<float> queries = columns_of(tables_.input, tables_.width, rows, search_.dim);
    std::vector<Offset> starts{0};
    std::vector<Index> contexts;
    for (const Index x : rows) {
      const SparseRow row = pairs_.contexts().row(x);
      contexts.insert(contexts.end(), row.indices.begin(), row.indices.end());
      starts.push_back(static_cast<Offset>(contexts.size()));
    }
    const DenseView view{queries, static_cast<Index>(rows.size()), static_cast<Index>(search_.dim)};
    const ApproximateLosses found = std::visit(
        [&](const auto* index) {
          return approximate_losses(*index, view, {starts, contexts}, options_of(search_), CrossEntropy{}, n_threads_);
        },
        search_.index);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto begin = static_cast<std::size_t>(found.indptr[i]), end = static_cast<std::size_t>(found.indptr[i + 1]);
      const auto n_contexts = static_cast<double>(starts[i + 1] - starts[i]);
      const auto scale = static_cast<float>(1 / n_contexts);
      std::vector<float> values(found.values.begin() + static_cast<std::ptrdiff_t>(begin),
                                found.values.begin() + static_cast<std::ptrdiff_t>(end));
      for (float& value : values) value *= scale;
      use(rows[i], found.losses[i] / n_contexts, std::span(found.ids).subspan(begin, end - begin), values,
          scale * static_cast<float>(found.rest[i]));
    }
  }
}

float MaskedGradients::shift_of(Index x, float share) const {
  return static_cast<float>(1 / static_cast<double>(pairs_.contexts().row(x).indices.size()) -
                            static_cast<double>(share));
}

void MaskedGradients::add_shift(Index x, std::span<float> sums) const {
  const SparseRow row = pairs_.contexts().row(x);
  for (std::size_t i = 0; i < row.indices.size(); ++i) {
    add_times(shift_of(x, row.values[i]), tables_.v(static_cast<std::size_t>(row.indices[i])), sums);
  }
}

TableGradient MaskedGradients::input_gradient() {
  TableGradient g{std::vector<double>(tables_.n_inputs()), std::vector<float>(tables_.input.size())};
  std::vector<float> all(tables_.width);  // the sum of all v_y
  for (std::size_t y = 0; y < tables_.n_outputs(); ++y) add_times(1.0F, tables_.v(y), all);
  each_found([&](Index x, double loss, std::span<const Index> ids, std::span<const float> values, float rest) {
    const auto at = static_cast<std::size_t>(x);
    const std::span<float> sums = std::span(g.gradient).subspan(at * tables_.width, tables_.width);
    add_shift(x, sums);
    g.losses[at] = loss + product(tables_.h(at), sums);
    if (rest != 0) add_times(rest, all, sums);
    for (std::size_t i = 0; i < ids.size(); ++i)
      add_times(values[i] - rest, tables_.v(static_cast<std::size_t>(ids[i])), sums);
  });
  return g;
}

TableGradient MaskedGradients::output_gradient() {
  std::vector<double> total(tables_.output.size());
  std::vector<float> shift(tables_.width);
  std::vector<double> of_rest(tables_.width);  // what every v_y gets
  double value = 0;
  each_found([&](Index x, double loss, std::span<const Index> ids, std::span<const float> values, float rest) {
    const std::span<const float> h = tables_.h(static_cast<std::size_t>(x));
    const double q = pairs_.centres[static_cast<std::size_t>(x)];
    const auto add = [&](Index y, float slope) {
      double* const sums = total.data() + static_cast<std::size_t>(y) * tables_.width;
      for (std::size_t j = 0; j < h.size(); ++j) sums[j] += static_cast<double>(slope) * q * static_cast<double>(h[j]);
    };
    for (std::size_t i = 0; i < ids.size(); ++i) add(ids[i], values[i] - rest);
    if (rest != 0) {
      const double times = static_cast<double>(rest) * q;
      for (std::size_t j = 0; j < h.size(); ++j) of_rest[j] += times * static_cast<double>(h[j]);
    }
    const SparseRow row = pairs_.contexts().row(x);
    for (std::size_t i = 0; i < row.indices.size(); ++i) add(row.indices[i], shift_of(x, row.values[i]));
    std::ranges::fill(shift, 0.0F);
    add_shift(x, shift);
    value += q * (loss + product(h, shift));
  });
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += of_rest[i % tables_.width];
  return {{value}, per_context(total)};
}

TableGradient MaskedGradients::before_input_step() {
  TableGradient g = input_gradient();
  observe_input();
  g.losses = losses();
  return g;
}

TableGradient MaskedGradients::before_output_step() {
  TableGradient g = output_gradient();
  observe_output();
  g.losses = values();
  return g;
}

SampledGradients::SampledGradients(const PairShares& pairs, WordTables tables, WordSearch search, std::size_t group,
                                   std::uint64_t seed, int n_threads)
    : SearchedGradients(pairs, tables, search, n_threads), group_(group), seed_(seed), group_of_(pairs.n_words()) {
  if (group == 0) throw std::invalid_argument("a group must have a centre");
  tried_ = centres_.size() > n_tried ? draw_words(pairs.centres, n_tried, next_rng()) : words_of(pairs.centres);
}

void SampledGradients::follow() {
  const std::vector<float> rows = columns_of(tables_.input, tables_.width, centres_, search_.dim);
  const RowsView view{rows.data(), search_.dim};
  const std::size_t n = centres_.size();
  if (grouping_ == nullptr) {
    const Directions directions(search_.dim, 0);
    const KMeansOptions options{
        std::max<std::size_t>(1, n / group_), k_means_iterations, sample_per_cluster, seed_, n_threads_, best_isa()};
    std::vector<float> centroids = spherical_kmeans(view, n, directions, options).centroids;
    grouping_ = std::make_unique<ClusterIndex>(view, n, Coding{search_.dim}, directions, std::move(centroids),
                                               std::span<const Index>(), n_threads_, best_isa());
  } else {
    std::vector<Index> ids(n);
    std::iota(ids.begin(), ids.end(), Index{0});
    grouping_->update(ids, view, n_threads_, best_isa());
  }
  draw();
}

void SampledGradients::draw() {
  if (grouping_ == nullptr) throw std::invalid_argument("the groups have not followed the tables");
  const std::vector<Index> clusters = labels_of(*grouping_);
  grouped_ = groups_of_clusters({tables_.input, tables_.width, search_.dim, centres_, clusters}, group_);
  const std::size_t n_groups = grouped_.starts.size() - 1, n_words = tables_.n_outputs(), budget = search_.budget;
  const DenseView means{grouped_.means, static_cast<Index>(n_groups), static_cast<Index>(search_.dim)};
  std::vector<float> scores(n_groups * budget);
  std::vector<Offset> ids(n_groups * budget);
  if (const auto* const blocks = std::get_if<const DecomposedIndex*>(&search_.index)) {
    const std::size_t a_hundredth = (n_words + blocks_find_at_least - 1) / blocks_find_at_least;
    const FindOptions options{std::max(budget, a_hundredth), 0, search_.n_probe, best_isa()};
    search_into(**blocks, means, budget, options, {}, n_threads_, scores, ids);
  } else {
    const ClusterIndex& index = *std::get<const ClusterIndex*>(search_.index);
    const Request request{budget, {}, search_.n_probe, {}, n_threads_, best_isa()};
    check(request, means, index);
    search_into(index, means, request, scores, ids);
  }
  const std::vector<Index> found(ids.begin(), ids.end());
  std::vector<Index> order(n_words);
  std::iota(order.begin(), order.end(), Index{0});
  shuffle(order, next_rng());
  lists_ = group_lists(found, budget, order);
  for (std::size_t g = 0; g < n_groups; ++g) {
    for (auto at = static_cast<std::size_t>(grouped_.starts[g]); at < static_cast<std::size_t>(grouped_.starts[g + 1]);
         ++at) {
      group_of_[static_cast<std::size_t>(grouped_.rows[at])] = g;
    }
  }
  groups_ = {grouped_.starts, grouped_.rows, lists_.starts, lists_.list, lists_.n_found, lists_.drawn_log_weights};
}

TableGradient SampledGradients::before_output_step() {
  draw();
  TableGradient g = output_gradient();
  g.losses.insert(g.losses.begin(), exact_loss_of_tried());
  return g;
}

std::vector<double> SampledGradients::values() const { return {exact_loss_of_tried(), value()}; }

double SampledGradients::exact_loss_of_tried() const {
  const std::vector<double> losses = pair_losses(pairs_, tables_, tried_.words, n_threads_);
  return std::inner_product(losses.begin(), losses.end(), tried_.shares.begin(), 0.0);
}

// Adds q_x p(y | x) h_x for each y that was not found for x: all such y of a sample of the centres.
void SampledGradients::add_rest(std::span<double> total) {
  const std::size_t n_drawn = std::max<std::size_t>(1, centres_.size() * search_.budget / tables_.n_outputs());
  const DrawnWords drawn = draw_words(pairs_.centres, n_drawn, next_rng());
  std::vector<double> weights(tables_.n_inputs());
  std::vector<Offset> starts{0};
  std::vector<Index> found;
  for (std::size_t i = 0; i < drawn.words.size(); ++i) {
    const auto x = static_cast<std::size_t>(drawn.words[i]), g = group_of_[x];
    weights[x] = drawn.shares[i];
    const auto first = lists_.list.begin() + static_cast<std::ptrdiff_t>(lists_.starts[g]);
    found.insert(found.end(), first, first + lists_.n_found[g]);
    starts.push_back(static_cast<Offset>(found.size()));
  }
  const Offset all[] = {0, static_cast<Offset>(drawn.words.size())};
  RowSoftmax question{tables_.input, tables_.output, tables_.width, {}, n_threads_, best_isa()};
  question.groups.rows = drawn.words;
  question.groups.row_starts = all;
  add_row_softmax(question, {.weights = weights, .output_gradient = total, .left_out = {starts, found}});
}

}  // namespace manyclass
