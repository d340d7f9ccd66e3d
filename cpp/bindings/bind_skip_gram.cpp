// Word vectors: reading text, training, questions to tables.
#include <algorithm>
#include <variant>

#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/text/vocabulary.hpp"
#include "manyclass/words/sentences.hpp"
#include "manyclass/words/word2vec.hpp"
#include "manyclass/words/word_passes.hpp"
#include "manyclass/words/word_queries.hpp"

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

// The UTF-8 of a str, in which halves of surrogate pairs stay what they are.
std::string letters_of(py::handle word) {
  const auto bytes = py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(word.ptr(), "utf-8", "surrogatepass"));
  if (!bytes) throw py::error_already_set();
  return static_cast<std::string>(bytes);
}

// Reads up to `most` sentences, lists of words, of an iterator; also says whether it has no more.
auto add_lists(TextReader& reader, const py::iterator& sentences, std::size_t most) {
  std::vector<Index> tokens;
  std::vector<Offset> ends;
  std::vector<std::string> words;
  bool is_over = false;
  for (std::size_t n = 0; n < most && !is_over; ++n) {
    const auto sentence = py::reinterpret_steal<py::object>(PyIter_Next(sentences.ptr()));
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    is_over = !sentence;
    if (is_over) break;
    if (py::isinstance<py::str>(sentence) || py::isinstance<py::bytes>(sentence)) {
      throw py::type_error(py::str("a sentence is {!r}; it must be a list of words, such as {!r}")
                               .format(sentence, sentence.attr("split")())
                               .cast<std::string>());
    }
    words.clear();
    for (const py::handle word : py::iter(sentence)) {
      if (!py::isinstance<py::str>(word)) {
        throw py::type_error(py::str("a word is {!r}; it must be a str").format(word).cast<std::string>());
      }
      words.push_back(letters_of(word));
    }
    reader.add_sentence(words, tokens, ends);
  }
  return std::tuple(array_of(tokens), array_of(ends), is_over);
}

py::list bytes_of(const std::vector<std::string>& words) {
  py::list texts;
  for (const std::string& word : words) texts.append(py::bytes(word));
  return texts;
}

// (words as bytes, counts, the row of each number, how many words of the text have a row)
auto vocabulary(const TextReader& reader, Offset least, const py::dict& known) {
  std::vector<std::pair<std::string, Offset>> before;
  for (const auto& [word, count] : known) before.emplace_back(letters_of(word), count.cast<Offset>());
  const Vocabulary words = released([&] { return vocabulary_of(reader, least, before); });
  return std::tuple(bytes_of(words.words), array_of(words.counts), array_of(words.rows), words.n_found);
}

auto word_rows(const py::bytes& body, std::size_t n_words, std::size_t dim, const std::string& name, bool binary) {
  const auto text = static_cast<std::string_view>(body);
  const WordRows rows = released([&] {
    return binary ? word_rows_of_bytes(text, n_words, dim, name) : word_rows_of_text(text, n_words, dim, name);
  });
  Array<float> vectors({n_words, dim});
  std::ranges::copy(rows.vectors, vectors.mutable_data());
  return std::pair(bytes_of(rows.words), vectors);
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

// Word vectors as they are stored, halves by their bits.
using TableValues = std::variant<Matrix<const float>, Matrix<const std::uint16_t>, Matrix<const std::int8_t>>;

template <class Value>
AnyCodes codes_of(const Matrix<const Value>& values, std::span<const float> scales) {
  return Codes<Value>{values.data, scales};
}

WordTable table_of(const TableValues& values, std::span<const float> scales) {
  return std::visit([&](const auto& some) { return WordTable{codes_of(some, scales), some.width()}; }, values);
}

auto norms_of(const TableValues& values, std::span<const float> scales) {
  const WordTable table = table_of(values, scales);
  return array_of(released([&] { return row_norms(table, best_isa()); }));
}

auto cosines_with(const TableValues& values, std::span<const float> scales, std::span<const double> vector) {
  const WordTable table = table_of(values, scales);
  return array_of(released([&] { return cosines(table, vector, best_isa()); }));
}

}  // namespace

void bind_skip_gram(Module& m) {
  Class<TextReader>(m, "TextReader")
      .def(constructor<>())
      .def("add", add_text, "text"_a, "last"_a)
      .def("add_lists", add_lists, "sentences"_a, "most"_a)
      .def("vocabulary", vocabulary, "least"_a, "known"_a)
      .def_property_readonly("n_words", &TextReader::n_words);
  m.def("word_rows", word_rows, "body"_a, "n_words"_a, "dim"_a, "name"_a, "binary"_a);

  m.def(
      "kept_shares",
      [](std::span<const Offset> counts, double sample, bool by_word2vec) {
        return array_of(kept_shares(counts, sample, by_word2vec));
      },
      "counts"_a, "sample"_a, "by_word2vec"_a);
  m.def("row_norms", norms_of, "values"_a, "scales"_a);
  m.def("cosines", cosines_with, "values"_a, "scales"_a, "vector"_a);
  m.def(
      "nearest_words",
      [](std::span<const float> cosines, std::size_t k, std::span<const Offset> left_out) {
        return array_of(nearest_words(cosines, k, left_out));
      },
      "cosines"_a, "k"_a, "left_out"_a);

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

  Fields<WordSchedule> schedule("WordPasses");
  schedule.needs<&WordSchedule::first_rate, &WordSchedule::last_rate, &WordSchedule::eta_u, &WordSchedule::n_passes,
                 &WordSchedule::first_pass, &WordSchedule::n_visits, &WordSchedule::careful>();
  list_fields(m, schedule);
  Class<WordPasses>(m, "WordPasses")
      .def(constructor([schedule](Trainer& trainer, std::span<float> input, std::span<float> output,
                                  std::span<double> carried, const py::kwargs& given) {
             return WordPasses(trainer, {input, output, carried}, schedule.of(given));
           }),
           "trainer"_a, "input"_a, "output"_a, "carried"_a, KeepAll())
      .def(
          "run",
          [](WordPasses& self, int n_pass, Offset first, double seconds) {
            return released([&] { return self.run(n_pass, first, seconds); });
          },
          "n_pass"_a, "first"_a, "seconds"_a)
      .def("has_overflowed", &WordPasses::has_overflowed)
      .def("go_back", &WordPasses::go_back)
      .def_readwrite("loss", &WordPasses::loss)
      .def_readwrite("loss_pairs", &WordPasses::loss_pairs)
      .def_readwrite("refused", &WordPasses::refused);
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
