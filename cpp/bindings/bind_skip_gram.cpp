// Word vectors: reading text, counting pairs, the Huffman tree, training.
#include <pybind11/stl.h>

#include <cmath>

#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "manyclass/text/cooccurrence.hpp"
#include "manyclass/text/reader.hpp"
#include "manyclass/train/plan.hpp"
#include "manyclass/train/sentences.hpp"

namespace manyclass {

using namespace py::literals;

namespace {

template <class T>
Array<T> array_of(const std::vector<T>& values) {
  return Array<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

// A text and what is counted of it, kept alive as long as the views of them.
struct BoundText {
  BoundText(Array<Index> tokens_, Array<Offset> sentences_, Array<double> keep_, py::ssize_t window, bool shrink)
      : tokens(std::move(tokens_)), sentences(std::move(sentences_)), keep(std::move(keep_)) {
    text = {view(tokens), view(sentences), view(keep), as_index(window, "window"), shrink};
    if (text.sentences.empty() || text.sentences.front() != 0 ||
        text.sentences.back() != static_cast<Offset>(text.tokens.size())) {
      throw std::invalid_argument("the sentences do not cover the tokens");
    }
    for (std::size_t s = 1; s < text.sentences.size(); ++s) {
      if (text.sentences[s] < text.sentences[s - 1]) throw std::invalid_argument("the sentences' positions decrease");
    }
    for (const Index word : text.tokens) {
      if (word < 0 || word >= keep.size()) throw std::invalid_argument("a token is not a word of the vocabulary");
    }
    if (text.window < 1) throw std::invalid_argument("window is less than 1");
  }
  BoundText(const BoundText&) = delete;  // `text` views the arrays of this object
  BoundText& operator=(const BoundText&) = delete;

  Array<Index> tokens;
  Array<Offset> sentences;
  Array<double> keep;
  SkipGramText text;
};

struct BoundSkipGram {
  py::list alive;
  std::size_t n_sentences;
  std::unique_ptr<Trainer> trainer;
};

EmbeddingRows rows_of(Array<float>& table, py::ssize_t n_rows, const char* what) {
  const auto line = static_cast<py::ssize_t>(line_floats);
  if (table.ndim() != 2 || table.shape(0) != n_rows || table.shape(1) % line != 0) {
    throw std::invalid_argument(std::string("the ") + what + " table is not " + std::to_string(n_rows) +
                                " rows of whole cache lines");
  }
  return {mutable_view(table), static_cast<std::size_t>(table.shape(1))};
}

AliasTable noise_of(const Array<Offset>& counts, double power) {
  const std::span<const Offset> words = view(counts);
  return frequency_table(std::vector<double>(words.begin(), words.end()), power);
}

struct TrainerArguments {
  std::string solver;
  py::ssize_t n_negatives;
  double power;
  bool share;
  double delta, u_gain;
};

std::unique_ptr<Trainer> make_skip_gram(const SkipGramProblem& problem, const Settings& settings,
                                        const TrainerArguments& a, const Array<Offset>& counts,
                                        std::span<double> carried) {
  if (a.solver == "hierarchical") return hierarchical_trainer(problem, settings, huffman_tree(view(counts)));
  const Index m = as_index(a.n_negatives, "n_negatives");
  if (a.solver == "negative_sampling") {
    return negative_sampling_trainer(problem, settings, noise_of(counts, a.power), m, a.share);
  }
  Plan plan;
  plan.solver = a.solver;
  plan.formulation = "raman";
  const std::span<const Facts> solvers = solver_facts();
  const Facts& solver = solvers[place_of("solver", a.solver, solvers)];
  const Options given{{"delta", a.delta}, {"gain", a.u_gain}};
  for (const Parameter& parameter : solver.parameters) {
    if (const auto value = given.find(parameter.name); value != given.end()) plan.options.insert(*value);
  }
  const bool with_label = solver.has(flag::draws_label);  // noise does not know the label
  const Frequency select{std::make_shared<const AliasTable>(noise_of(counts, a.power)), m, with_label};
  return sampled_trainer(problem, settings, select, step_named(plan), carried);
}

}  // namespace

void bind_skip_gram(py::module_& m) {
  py::class_<TextReader>(m, "TextReader")
      .def(py::init<>())
      .def(
          "add",
          [](TextReader& self, const py::bytes& text, bool last) {
            std::vector<Index> tokens;
            std::vector<Offset> ends;
            const auto piece = static_cast<std::string_view>(text);
            {
              const py::gil_scoped_release nogil;
              self.add(piece, tokens, ends);
              if (last) self.finish(tokens, ends);
            }
            return py::make_tuple(array_of(tokens), array_of(ends));
          },
          "text"_a, "last"_a)
      .def("words",
           [](const TextReader& self) {
             py::list words;
             for (std::size_t i = 0; i < self.n_words(); ++i) words.append(py::bytes(std::string(self.word(i))));
             return words;
           })
      .def("counts", [](const TextReader& self) {
        return array_of(std::vector<Offset>(self.counts().begin(), self.counts().end()));
      });

  py::class_<BoundText>(m, "SkipGramText")
      .def(py::init<Array<Index>, Array<Offset>, Array<double>, py::ssize_t, bool>(), py::kw_only(),
           "tokens"_a.noconvert(), "sentences"_a.noconvert(), "keep"_a.noconvert(), "window"_a, "shrink"_a);

  m.def(
      "cooccurrences",
      [](const BoundText& text, std::uint64_t seed, int n_threads, std::size_t memory, const std::string& folder) {
        Cooccurrences found;
        {
          const py::gil_scoped_release nogil;
          found = count_cooccurrences(text.text, static_cast<Index>(text.text.keep.size()),
                                      {seed, n_threads, memory, folder});
        }
        return py::make_tuple(array_of(found.starts), array_of(found.contexts), array_of(found.counts),
                              found.n_spilled);
      },
      py::kw_only(), "text"_a, "seed"_a, "n_threads"_a, "memory"_a, "folder"_a);

  m.def(
      "huffman_tree",
      [](const Array<Offset>& counts) {
        if (counts.size() < 2) throw std::invalid_argument("a tree needs two words");
        const HuffmanTree tree = huffman_tree(view(counts));
        return py::make_tuple(array_of(tree.starts), array_of(tree.nodes), array_of(tree.signs));
      },
      "counts"_a.noconvert());

  py::class_<BoundSkipGram>(m, "SkipGramTrainer")
      .def(py::init([](py::object text, Array<float> input, Array<float> output, Array<double> carried,
                       const Array<Offset>& counts, const std::string& solver, py::ssize_t n_negatives, double power,
                       bool share, double delta, double u_gain, std::uint64_t seed, int n_threads,
                       const std::string& isa) {
             const auto& bound = text.cast<const BoundText&>();
             const auto n_words = static_cast<py::ssize_t>(bound.text.keep.size());
             if (counts.size() != n_words || carried.size() != n_words || n_words < 2) {
               throw std::invalid_argument("counts and carried values must be those of two words or more");
             }
             const py::ssize_t n_output = solver == "hierarchical" ? n_words - 1 : n_words;
             const SkipGramProblem problem{bound.text, rows_of(input, n_words, "input"),
                                           rows_of(output, n_output, "output")};
             if (problem.input.width() != problem.output.width()) {
               throw std::invalid_argument("the tables differ in width");
             }
             Settings settings;
             settings.seed = seed;
             settings.n_threads = n_threads;
             settings.isa = isa_named(isa);
             auto trainer = make_skip_gram(problem, settings, {solver, n_negatives, power, share, delta, u_gain},
                                           counts, mutable_view(carried));
             py::list alive;
             for (const py::object& held : {text, py::object(input), py::object(output), py::object(carried)}) {
               alive.append(held);
             }
             return BoundSkipGram{std::move(alive), bound.text.n_sentences(), std::move(trainer)};
           }),
           py::kw_only(), "text"_a, "input"_a.noconvert(), "output"_a.noconvert(), "carried"_a.noconvert(),
           "counts"_a.noconvert(), "solver"_a, "n_negatives"_a, "power"_a, "share"_a, "delta"_a, "u_gain"_a, "seed"_a,
           "n_threads"_a, "isa"_a)
      .def(
          "run",
          [](BoundSkipGram& self, int n_pass, std::size_t first, std::size_t last, double eta_begin, double eta_end,
             double eta_u) {
            if (first > last || last > self.n_sentences) throw std::invalid_argument("no such sentences");
            const py::gil_scoped_release nogil;
            return self.trainer->run(
                {n_pass, eta_begin, eta_u, static_cast<Offset>(first), static_cast<Offset>(last), 0, eta_end});
          },
          py::kw_only(), "n_pass"_a, "first"_a, "last"_a, "eta_begin"_a, "eta_end"_a, "eta_u"_a);
}

}  // namespace manyclass
