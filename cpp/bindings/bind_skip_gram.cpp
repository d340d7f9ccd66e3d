// Word vectors: reading text, counting pairs, the Huffman tree, training; exact softmaxes of rows over rows.
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/exact/row_groups.hpp"
#include "manyclass/exact/row_softmax.hpp"
#include "manyclass/text/cooccurrence.hpp"
#include "manyclass/text/reader.hpp"
#include "manyclass/train/sentences.hpp"

namespace manyclass {

namespace {

auto add_text(TextReader& reader, const py::bytes& text, bool last) {
  std::vector<Index> tokens;
  std::vector<Offset> ends;
  const auto piece = static_cast<std::string_view>(text);
  released([&] {
    reader.add(piece, tokens, ends);
    if (last) reader.finish(tokens, ends);
  });
  return std::pair(array_of(tokens), array_of(ends));
}

py::list words_of(const TextReader& reader) {
  py::list words;
  for (std::size_t i = 0; i < reader.n_words(); ++i) words.append(py::bytes(std::string(reader.word(i))));
  return words;
}

auto count_pairs(const SkipGramText& text, std::uint64_t seed, int n_threads, std::size_t memory,
                 const std::string& folder) {
  const Cooccurrences found = released([&] {
    return count_cooccurrences(text, static_cast<Index>(text.keep.size()), {seed, n_threads, memory, folder});
  });
  return std::tuple(array_of(found.starts), array_of(found.contexts), array_of(found.counts), found.n_spilled);
}

// What a training of word vectors begins with.
struct SkipGramTraining {
  SkipGramText text;
  Matrix<float> input, output;
  std::span<double> carried;
  std::span<const Offset> counts;
  SkipGramChoice choice;
  Settings settings;
};

Fields<SkipGramTraining> training_fields() {
  Fields<SkipGramTraining> fields("skip_gram_trainer");
  fields.needs<&SkipGramTraining::text, &SkipGramTraining::input, &SkipGramTraining::output, &SkipGramTraining::carried,
               &SkipGramTraining::counts>();
  fields.with<&SkipGramTraining::choice>(
      Fields<SkipGramChoice>("SkipGramChoice")
          .needs<&SkipGramChoice::solver, &SkipGramChoice::n_negatives, &SkipGramChoice::power, &SkipGramChoice::share,
                 &SkipGramChoice::options>());
  return fields.with<&SkipGramTraining::settings>(
      Fields<Settings>("Settings").needs<&Settings::seed, &Settings::n_threads, &Settings::isa>());
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

auto losses_of_tree(const Matrix<const float>& input, const Matrix<const float>& output, std::span<const Index> rows,
                    const py::object& observed, std::span<const Offset> starts, std::span<const Index> nodes,
                    std::span<const float> signs, int n_threads) {
  RowSoftmax question;
  question.groups.rows = rows;
  question.n_threads = n_threads;
  question = of_tables(question, input, output);
  const AnyData words = data_view(observed, static_cast<py::ssize_t>(starts.size()) - 1);
  auto losses = empty_array<double>(rows.size());
  const std::span<double> out = mutable_view(losses);
  released([&] { tree_losses(question, {starts, nodes, signs}, std::get<CsrView>(words), out); });
  return losses;
}

auto grouped_rows(const Matrix<const float>& table, std::size_t width, std::span<const Index> rows,
                  std::span<const Index> clusters, std::size_t most) {
  const GroupedRows groups =
      released([&] { return group_rows({table.data, table.width(), width, rows, clusters}, most); });
  return std::tuple(array_of(groups.rows), array_of(groups.starts), matrix_of<float>(groups.means, width));
}

py::dict lists_of_groups(const Matrix<const Index>& found, std::span<const Index> order) {
  const GroupLists lists = released([&] { return group_lists(found.data, found.width(), order); });
  return py::dict("list_starts"_a = array_of(lists.starts), "list"_a = array_of(lists.list),
                  "n_found"_a = array_of(lists.n_found), "drawn_log_weights"_a = array_of(lists.drawn_log_weights));
}

}  // namespace

void bind_skip_gram(py::module_& m) {
  py::class_<TextReader>(m, "TextReader")
      .def(py::init<>())
      .def("add", add_text, "text"_a, "last"_a)
      .def("words", words_of)
      .def("counts", [](const TextReader& self) {
        return array_of(std::vector<Offset>(self.counts().begin(), self.counts().end()));
      });

  m.def(
      "renumber",
      [](std::span<Index> tokens, std::span<const Index> rows, std::span<const Offset> ends, Offset longest) {
        return array_of(released([&] { return renumber(tokens, rows, ends, longest); }));
      },
      "tokens"_a, "rows"_a, "ends"_a, "longest"_a);

  bind_struct(m,
              Fields<SkipGramText>("SkipGramText")
                  .needs<&SkipGramText::tokens, &SkipGramText::sentences, &SkipGramText::keep, &SkipGramText::window,
                         &SkipGramText::shrink>(),
              [](const SkipGramText& text) { check(text); });

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
  m.def("tree_losses", losses_of_tree, py::kw_only(), "input"_a, "output"_a, "rows"_a, "observed"_a, "starts"_a,
        "nodes"_a, "signs"_a, "n_threads"_a);
  const Fields<SkipGramTraining> fields = training_fields();
  list_fields(m, fields);
  m.def(
      "skip_gram_trainer",
      [fields](const py::kwargs& given) {
        const SkipGramTraining t = fields.of(given);
        return skip_gram_trainer({t.text, {t.input.data, t.input.width()}, {t.output.data, t.output.width()}},
                                 t.settings, t.choice, t.counts, t.carried);
      },
      KeepAll());
}

}  // namespace manyclass
