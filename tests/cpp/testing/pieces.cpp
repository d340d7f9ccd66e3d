// Pieces of the core that its own functions call and Python does not.
#include <algorithm>

#include "bindings/family_of_points.hpp"
#include "bindings/labelled.hpp"
#include "manyclass/evaluate/label_odds.hpp"
#include "manyclass/exact/balanced_softmax.hpp"
#include "manyclass/exact/label_losses.hpp"
#include "manyclass/exact/local_family.hpp"
#include "manyclass/text/cooccurrence.hpp"
#include "manyclass/words/pair_shares.hpp"
#include "manyclass/words/row_groups.hpp"
#include "manyclass/words/row_softmax.hpp"
#include "module.hpp"

namespace manyclass {

namespace {

struct TotalsCall {
  Labelled<float> of;
};

auto totals(const TotalsCall& call) {
  const Labelled<float>& of = call.of;
  auto normalizers = empty_array<double>(of.labels.size()), losses = empty_array<double>(of.labels.size());
  Array<double> sums(of.n_classes);
  const std::span<double> out = mutable_view(normalizers), out_losses = mutable_view(losses),
                          out_sums = mutable_view(sums);
  with_model(of, [&](const auto& data, const auto& model) {
    softmax_totals(data, of.labels, of.sample_weight, model, of.n_threads, of.isa, out, out_losses, out_sums);
  });
  return std::tuple(normalizers, losses, sums);
}

struct BalanceCall {
  Labelled<float> of;
  Balance balance;
};

Fields<BalanceCall> balance_fields() {
  Fields<Balance> balance("Balance");
  balance.needs<&Balance::normalizers, &Balance::keep, &Balance::fill>();
  return Fields<BalanceCall>("balanced_softmax")
      .with<&BalanceCall::of>(labelled_fields<float>())
      .with<&BalanceCall::balance>(balance);
}

auto balanced(const BalanceCall& call) {
  const Labelled<float>& of = call.of;
  auto entropies = empty_array<double>(of.labels.size()), label_probabilities = empty_array<double>(of.labels.size());
  const std::span<double> out = mutable_view(entropies), out_labels = mutable_view(label_probabilities);
  const double residual = with_model(of, [&](const auto& data, const auto& model) {
    return balanced_softmax(data, of.labels, of.sample_weight, model, call.balance, of.n_threads, of.isa, out,
                            out_labels);
  });
  return std::tuple(entropies, label_probabilities, residual);
}

// Rows of scores, what is asked of them and where it goes.
struct LabelOddsCall {
  Matrix<const float> scores;
  LabelOdds question;
  LabelOddsSums sums;
};

Fields<LabelOddsCall> label_odds_fields() {
  Fields<Excluded> labels("Excluded");
  labels.needs<&Excluded::indptr, &Excluded::ids>();
  Fields<LabelOdds> question("LabelOdds");
  question.with<&LabelOdds::labels>(labels).needs<&LabelOdds::n_threads>();
  question.takes<&LabelOdds::temperature, &LabelOdds::offset, &LabelOdds::lowest, &LabelOdds::weights>();
  Fields<LabelOddsSums> sums("LabelOddsSums");
  sums.takes<&LabelOddsSums::log_losses, &LabelOddsSums::label_losses, &LabelOddsSums::own, &LabelOddsSums::counts>();
  Fields<LabelOddsCall> fields("label_odds");
  fields.needs<&LabelOddsCall::scores>();
  return fields.with<&LabelOddsCall::question>(question).with<&LabelOddsCall::sums>(sums);
}

void odds_of_labels(const LabelOddsCall& call) {
  LabelOdds question = call.question;
  question.scores = call.scores.data;
  question.n_classes = call.scores.width();
  question.isa = best_isa();
  released([&] { label_odds(question, call.sums); });
}

// One point as the core sees it, for the tests.
py::tuple one_point(const std::string& name, double smoothing, std::span<const float> positives,
                    std::span<const float> negatives, double rest, float rest_score, Isa isa) {
  auto of_positives = empty_array<float>(positives.size()), of_negatives = empty_array<float>(negatives.size());
  const LabelScores z{positives, negatives, rest, rest_score};
  LabelGradient g{mutable_view(of_positives), mutable_view(of_negatives)};
  const auto [value, enough] = label_loss_of(label_loss(name, smoothing), z, isa, g);
  return py::make_tuple(value, of_positives, of_negatives, g.rest, enough);
}

auto best_local(const std::string& noise, const Matrix<const double>& d, std::span<const double> counts,
                std::span<const double> nodes, std::span<const double> weights, double mu, double s, int n_threads) {
  Array<double> locations(d.rows), scales(d.rows);
  const std::span<double> of_mu = mutable_view(locations), of_s = mutable_view(scales);
  released([&] {
    best_members(noise, {d.data, counts, d.width()}, {nodes, weights}, {mu, s}, n_threads, best_isa(), of_mu, of_s);
  });
  return std::pair(locations, scales);
}

WordTables tables_of(const Matrix<float>& input, const Matrix<float>& output) {
  if (input.cols != output.cols) throw std::invalid_argument("the tables differ in width");
  return {input.data, output.data, input.width()};
}

auto drawn(const SkipGramText& text, std::size_t n, std::uint64_t seed) {
  const DrawnPairs pairs = draw_pairs(text, n, Rng({seed, 0}, 0));
  return std::pair(array_of(pairs.centres), array_of(pairs.contexts));
}

auto losses_of_pairs(const Matrix<float>& input, const Matrix<float>& output, std::span<const Index> centres,
                     std::span<const Index> contexts) {
  const WordTables tables = tables_of(input, output);
  const auto outside = [](std::span<const Index> ids, std::size_t n) {
    return std::ranges::any_of(ids, [n](Index id) { return id < 0 || static_cast<std::size_t>(id) >= n; });
  };
  if (centres.size() != contexts.size() || outside(centres, tables.n_inputs()) ||
      outside(contexts, tables.n_outputs())) {
    throw std::invalid_argument("the pairs are not of words of the tables");
  }
  return array_of(released([&] { return pair_losses(tables, centres, contexts, 1); }));
}

auto count_pairs(const SkipGramText& text, std::uint64_t seed, int n_threads, std::size_t memory,
                 const std::string& folder) {
  const Cooccurrences found = released([&] {
    return count_cooccurrences(text, static_cast<Index>(text.keep.size()), {seed, n_threads, memory, folder});
  });
  return std::tuple(array_of(found.starts), array_of(found.contexts), array_of(found.counts), found.n_spilled);
}

// Two tables of rows, what is asked of them and where it goes.
struct RowSoftmaxCall {
  Matrix<const float> input, output;
  RowSoftmax question;
  RowSums sums;
};

Fields<RowSoftmaxCall> row_softmax_fields() {
  Fields<RowGroups> groups("RowGroups");
  groups.needs<&RowGroups::row_starts, &RowGroups::rows>();
  groups.takes<&RowGroups::list_starts, &RowGroups::list, &RowGroups::n_found, &RowGroups::drawn_log_weights>();
  Fields<RowSoftmax> question("RowSoftmax");
  question.with<&RowSoftmax::groups>(groups).needs<&RowSoftmax::n_threads>();
  Fields<Excluded> left_out("Excluded");
  left_out.member_as<&Excluded::indptr>("left_out_starts", false).member_as<&Excluded::ids>("left_out", false);
  Fields<RowSums> sums("RowSums");
  sums.takes<&RowSums::log_z, &RowSums::input_gradient, &RowSums::weights, &RowSums::output_gradient>();
  sums.with<&RowSums::left_out>(left_out);
  Fields<RowSoftmaxCall> fields("add_row_softmax");
  fields.needs<&RowSoftmaxCall::input, &RowSoftmaxCall::output>();
  return fields.with<&RowSoftmaxCall::question>(question).with<&RowSoftmaxCall::sums>(sums);
}

RowSoftmax of_tables(RowSoftmax question, const Matrix<const float>& input, const Matrix<const float>& output) {
  if (input.cols != output.cols) throw std::invalid_argument("the tables differ in width");
  question.input = input.data;
  question.output = output.data;
  question.width = input.width();
  question.isa = best_isa();
  return question;
}

void row_softmax(const RowSoftmaxCall& call) {
  const RowSoftmax question = of_tables(call.question, call.input, call.output);
  released([&] { add_row_softmax(question, call.sums); });
}

auto grouped_rows(const Matrix<const float>& table, std::size_t width, std::span<const Index> rows,
                  std::span<const Index> clusters, std::size_t most) {
  const GroupedRows groups =
      released([&] { return groups_of_clusters({table.data, table.width(), width, rows, clusters}, most); });
  return std::tuple(array_of(groups.rows), array_of(groups.starts), matrix_of<float>(groups.means, width));
}

py::dict lists_of_groups(const Matrix<const Index>& found, std::span<const Index> order) {
  const GroupLists lists = released([&] { return group_lists(found.data, found.width(), order); });
  return py::dict("list_starts"_a = array_of(lists.starts), "list"_a = array_of(lists.list),
                  "n_found"_a = array_of(lists.n_found), "drawn_log_weights"_a = array_of(lists.drawn_log_weights));
}

}  // namespace

void bind_pieces(Module& m) {
  bind_function(m, Fields<TotalsCall>("softmax_totals").with<&TotalsCall::of>(labelled_fields<float>()), totals);
  bind_function(m, balance_fields(), balanced);
  bind_function(m, label_odds_fields(), odds_of_labels);
  m.def("label_loss", one_point, "loss"_a, "smoothing"_a, "positives"_a, "negatives"_a, py::kw_only(), "rest"_a,
        "rest_score"_a, "isa"_a = "auto");
  m.def("best_local", best_local, py::kw_only(), "noise"_a, "d"_a, "counts"_a, "nodes"_a, "weights"_a, "mu"_a, "s"_a,
        "n_threads"_a);
  m.def(
      "gauss_rule",
      [](const std::string& family, Index n_nodes) {
        const GaussRule rule = rule_of_family(family, n_nodes);
        return std::pair(array_of(rule.nodes), array_of(rule.weights));
      },
      py::kw_only(), "family"_a, "n_nodes"_a);
  m.def("draw_pairs", drawn, "text"_a, "n"_a, "seed"_a);
  m.def("losses_of_pairs", losses_of_pairs, "input"_a, "output"_a, "centres"_a, "contexts"_a);
  m.def("cooccurrences", count_pairs, py::kw_only(), "text"_a, "seed"_a, "n_threads"_a, "memory"_a, "folder"_a);
  m.def(
      "huffman_tree",
      [](std::span<const Offset> counts) {
        const HuffmanTree tree = huffman_tree(counts);
        return std::tuple(array_of(tree.starts), array_of(tree.nodes), array_of(tree.signs));
      },
      "counts"_a);
  bind_function(m, row_softmax_fields(), row_softmax);
  m.def("group_rows", grouped_rows, py::kw_only(), "table"_a, "width"_a, "rows"_a, "clusters"_a, "most"_a);
  m.def("group_lists", lists_of_groups, "found"_a, "order"_a);
}

}  // namespace manyclass
