// Word vectors: reading text, counting pairs, the Huffman tree, training.
#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
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

std::unique_ptr<Trainer> trainer(const SkipGramText& text, const Matrix<float>& input, const Matrix<float>& output,
                                 std::span<double> carried, std::span<const Offset> counts, const std::string& solver,
                                 Index n_negatives, double power, bool share, double delta, double u_gain,
                                 std::uint64_t seed, int n_threads, Isa isa) {
  const SkipGramProblem problem{text, {input.data, input.width()}, {output.data, output.width()}};
  Settings settings;
  settings.seed = seed;
  settings.n_threads = n_threads;
  settings.isa = isa;
  return skip_gram_trainer(problem, settings, {solver, n_negatives, power, share, delta, u_gain}, counts, carried);
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

  py::class_<SkipGramText>(m, "SkipGramText")
      .def(py::init([](std::span<const Index> tokens, std::span<const Offset> sentences, std::span<const double> keep,
                       Index window, bool shrink) {
             const SkipGramText text{tokens, sentences, keep, window, shrink};
             check(text);
             return text;
           }),
           py::kw_only(), "tokens"_a, "sentences"_a, "keep"_a, "window"_a, "shrink"_a, KeepAll());

  m.def("cooccurrences", count_pairs, py::kw_only(), "text"_a, "seed"_a, "n_threads"_a, "memory"_a, "folder"_a);
  m.def(
      "huffman_tree",
      [](std::span<const Offset> counts) {
        const HuffmanTree tree = huffman_tree(counts);
        return std::tuple(array_of(tree.starts), array_of(tree.nodes), array_of(tree.signs));
      },
      "counts"_a);
  m.def("skip_gram_trainer", trainer, py::kw_only(), "text"_a, "input"_a, "output"_a, "carried"_a, "counts"_a,
        "solver"_a, "n_negatives"_a, "power"_a, "share"_a, "delta"_a, "u_gain"_a, "seed"_a, "n_threads"_a, "isa"_a,
        KeepAll());
}

}  // namespace manyclass
