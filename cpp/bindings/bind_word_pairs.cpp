// The collapsed skip-gram objective: shares of pairs of words, exact losses, and descent on it.
#include <algorithm>
#include <memory>
#include <optional>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/words/table_descent.hpp"

namespace manyclass {

namespace {

WordTables tables_of(const Matrix<float>& input, const Matrix<float>& output) {
  if (input.cols != output.cols) throw std::invalid_argument("the tables differ in width");
  return {input.data, output.data, input.width()};
}

// Tables with a row of h for each word of the pairs.
WordTables tables_of(const PairShares& pairs, const Matrix<float>& input, const Matrix<float>& output) {
  const WordTables tables = tables_of(input, output);
  if (tables.n_inputs() != pairs.n_words()) throw std::invalid_argument("the input table has no row for each word");
  return tables;
}

// With a vector v for each word, where there is no tree.
WordTables word_tables_of(const PairShares& pairs, const Matrix<float>& input, const Matrix<float>& output) {
  const WordTables tables = tables_of(pairs, input, output);
  if (tables.n_outputs() != pairs.n_words()) throw std::invalid_argument("the output table has no row for each word");
  return tables;
}

PairShares made_of(const py::object& contexts, std::span<const double> centres) {
  const AnyData data = data_view(contexts, static_cast<py::ssize_t>(centres.size()));
  const auto* const csr = std::get_if<CsrView>(&data);
  if (csr == nullptr) throw py::type_error("the contexts must be a tuple (indptr, indices, data)");
  PairShares pairs;
  pairs.starts.assign(csr->indptr.begin(), csr->indptr.end());
  pairs.words.assign(csr->indices.begin(), csr->indices.end());
  pairs.of_words.assign(csr->data.begin(), csr->data.end());
  pairs.centres.assign(centres.begin(), centres.end());
  check(pairs);
  return pairs;
}

PairShares counted(const SkipGramText& text, std::uint64_t seed, int n_threads, std::size_t memory,
                   const std::string& folder) {
  return released([&] {
    const auto n_words = static_cast<Index>(text.keep.size());
    // Where windows shrink, a word has a probability: pairs are counted in parts of 1 / window.
    return shares_of(count_cooccurrences(text, n_words, {seed, n_threads, memory, folder}),
                     text.shrink ? text.window : 1);
  });
}

auto losses_of(const PairShares& pairs, const Matrix<float>& input, const Matrix<float>& output,
               std::span<const Index> rows, int n_threads) {
  const WordTables tables = word_tables_of(pairs, input, output);
  return array_of(released([&] { return pair_losses(pairs, tables, rows, n_threads); }));
}

auto losses_of_tree(const PairShares& pairs, const Matrix<float>& input, const Matrix<float>& output,
                    std::span<const Index> rows, std::span<const Offset> counts, int n_threads) {
  const WordTables tables = tables_of(pairs, input, output);
  return array_of(released([&] { return tree_losses(pairs, tables, huffman_tree(counts), rows, n_threads); }));
}

double objective(const PairShares& pairs, const Matrix<float>& input, const Matrix<float>& output, std::size_t n_draws,
                 std::uint64_t seed, int n_threads, const std::optional<std::span<const Offset>>& tree_counts) {
  const WordTables tables = tree_counts ? tables_of(pairs, input, output) : word_tables_of(pairs, input, output);
  return released([&] {
    HuffmanTree tree;
    if (tree_counts) tree = huffman_tree(*tree_counts);
    return collapsed_objective(pairs, tables, tree_counts ? &tree : nullptr, n_draws, seed, n_threads);
  });
}

auto log_normalizers_of(const Matrix<float>& input, const Matrix<float>& output, int n_threads) {
  const WordTables tables = tables_of(input, output);
  std::vector<Index> rows(tables.n_inputs());
  for (std::size_t x = 0; x < rows.size(); ++x) rows[x] = static_cast<Index>(x);
  return array_of(released([&] { return log_normalizers(tables, rows, n_threads); }));
}

// How many of n drawn pairs there are, the mean of their losses, and its standard error.
auto mean_loss_of_pairs(const SkipGramText& text, const Matrix<float>& input, const Matrix<float>& output,
                        std::size_t n, std::uint64_t seed) {
  const WordTables tables = tables_of(input, output);
  return released([&] {
    const MeanLoss losses = mean_pair_loss(text, tables, n, Rng({seed, 0}, 0));
    return std::tuple(losses.n_pairs, losses.mean, losses.standard_error);
  });
}

// A descent with what it moves and, where it searches, the index that it searches in.
class WordDescent {
 public:
  WordDescent(const PairShares& pairs, const Matrix<float>& input, const Matrix<float>& output,
              std::span<double> input_rates, double output_rate, const std::string& found, std::size_t budget,
              std::size_t dim, std::size_t group, std::uint64_t seed, int n_threads)
      : gradients_(made(pairs, word_tables_of(pairs, input, output), found, budget, dim, group, seed, n_threads)),
        descent_(*gradients_, input_rates, output_rate) {}

  // The index may be another object than before: a fit makes a new one.
  void search_in(const py::object& index, std::size_t n_probe) {
    auto* const searched = dynamic_cast<SearchedGradients*>(gradients_.get());
    if (searched == nullptr) throw std::invalid_argument("exact gradients search in no index");
    if (py::isinstance<ClusterIndex>(index)) {
      searched->search_in(index.cast<const ClusterIndex*>(), n_probe);
    } else {
      searched->search_in(index.cast<const DecomposedIndex*>(), n_probe);
    }
    index_ = index;
    has_index_ = true;
  }

  TableGradients& gradients() {
    if (!has_index_ && dynamic_cast<SearchedGradients*>(gradients_.get()) != nullptr) {
      throw std::invalid_argument("the descent has no index to search in");
    }
    return *gradients_;
  }
  TableDescent& descent() {
    gradients();
    return descent_;
  }
  double output_rate() const { return descent_.output_rate(); }
  void set_output_rate(double rate) { descent_.set_output_rate(rate); }

 private:
  static std::unique_ptr<TableGradients> made(const PairShares& pairs, WordTables tables, const std::string& found,
                                              std::size_t budget, std::size_t dim, std::size_t group,
                                              std::uint64_t seed, int n_threads) {
    if (found == "all") return std::make_unique<TableGradients>(pairs, tables, n_threads);
    if (budget < 1 || budget > pairs.n_words() || dim > tables.width) {
      throw std::invalid_argument("the budget of a search or its columns are out of range");
    }
    WordSearch search;
    search.budget = budget;
    search.dim = dim;
    search.printed = found == "printed_messages";
    search.messages = found == "messages" || search.printed;
    if (found == "sample") return std::make_unique<SampledGradients>(pairs, tables, search, group, seed, n_threads);
    return std::make_unique<MaskedGradients>(pairs, tables, search, n_threads);
  }

  std::unique_ptr<TableGradients> gradients_;
  TableDescent descent_;
  py::object index_;
  bool has_index_ = false;
};

auto input_gradient(WordDescent& self) {
  const TableGradient g = released([&of = self.gradients()] { return of.input_gradient(); });
  return std::pair(array_of(g.losses), matrix_of<float>(g.gradient, self.gradients().tables().width));
}

auto output_gradient(WordDescent& self) {
  const TableGradient g = released([&of = self.gradients()] { return of.output_gradient(); });
  return std::pair(g.losses.back(), matrix_of<float>(g.gradient, self.gradients().tables().width));
}

}  // namespace

void bind_word_pairs(Module& m) {
  const auto input = "input"_a, output = "output"_a, rows = "rows"_a, n_threads = "n_threads"_a, seed = "seed"_a;
  Class<PairShares>(m, "PairShares")
      .def(constructor(&made_of), "contexts"_a, "centres"_a)
      .def_static("count", counted, py::kw_only(), "text"_a, seed, n_threads, "memory"_a, "folder"_a)
      .def_property_readonly("contexts",
                             [](const PairShares& self) {
                               return std::tuple(array_of(self.starts), array_of(self.words), array_of(self.of_words));
                             })
      .def_property_readonly("centres", [](const PairShares& self) { return array_of(self.centres); })
      .def_property_readonly("words_as_contexts",
                             [](const PairShares& self) { return array_of(shares_as_contexts(self)); })
      .def_readonly("n_pairs", &PairShares::n_pairs)
      .def_readonly("n_spilled", &PairShares::n_spilled)
      .def("losses", losses_of, input, output, rows, n_threads)
      .def("tree_losses", losses_of_tree, input, output, rows, "counts"_a, n_threads)
      .def("objective", objective, input, output, py::kw_only(), "n_draws"_a, seed, n_threads, "tree_counts"_a);
  m.def("word_log_normalizers", log_normalizers_of, input, output, n_threads);
  m.def("mean_loss_of_pairs", mean_loss_of_pairs, "text"_a, input, output, "n"_a, seed);
  Class<WordDescent>(m, "WordDescent")
      .def(constructor<const PairShares&, const Matrix<float>&, const Matrix<float>&, std::span<double>, double,
                       const std::string&, std::size_t, std::size_t, std::size_t, std::uint64_t, int>(),
           "pairs"_a, py::kw_only(), input, output, "input_rates"_a, "output_rate"_a, "found"_a, "budget"_a, "dim"_a,
           "group"_a, seed, n_threads, KeepAll())
      .def("search_in", &WordDescent::search_in, "index"_a, "n_probe"_a)
      .def("step", [](WordDescent& self) { return released([&of = self.descent()] { return of.step(); }); })
      .def("move_input", [](WordDescent& self) { released([&of = self.descent()] { of.move_input(); }); })
      .def("follow", [](WordDescent& self) { released([&of = self.gradients()] { of.follow(); }); })
      .def("input_gradient", input_gradient)
      .def("output_gradient", output_gradient)
      .def("losses",
           [](WordDescent& self) { return array_of(released([&of = self.gradients()] { return of.losses(); })); })
      .def("value", [](WordDescent& self) { return released([&of = self.gradients()] { return of.value(); }); })
      .def_property("output_rate", &WordDescent::output_rate, &WordDescent::set_output_rate);
}

}  // namespace manyclass
