// Text files of sparse data and tables, histories as rows, drawn classes, and whether arrays are such data.
#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/io/arff_reader.hpp"
#include "manyclass/io/csv_reader.hpp"
#include "manyclass/io/histories.hpp"
#include "manyclass/io/label_words.hpp"
#include "manyclass/io/labelled_texts.hpp"
#include "manyclass/io/row_scaling.hpp"
#include "manyclass/io/xmc_reader.hpp"
#include "manyclass/select/softmax_draws.hpp"

namespace manyclass {

namespace {

// A NumPy array that owns the buffer.
template <class T>
py::array_t<T> to_array(Buffer<T> buffer) {
  T* const data = buffer.data.get();
  const py::capsule owner(data, [](void* p) { std::unique_ptr<T[]>(static_cast<T*>(p)); });
  buffer.data.release();
  return py::array_t<T>(static_cast<py::ssize_t>(buffer.size), data, owner);
}

py::tuple arrays_of(XmcData data) {
  return py::make_tuple(data.n_features, data.n_labels, to_array(std::move(data.x_indptr)),
                        to_array(std::move(data.x_indices)), to_array(std::move(data.x_data)),
                        to_array(std::move(data.y_indptr)), to_array(std::move(data.y_indices)));
}

std::span<const char> characters(const py::bytes& text) {
  const auto view = static_cast<std::string_view>(text);
  return {view.data(), view.size()};
}

py::tuple read_xmc_arrays(const Array<std::uint8_t>& text, const std::string& name, std::optional<bool> header,
                          bool zero_based, std::optional<Index> n_features, std::optional<Index> n_labels,
                          int n_threads) {
  const std::span<const char> all(reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(text.size()));
  return arrays_of(
      released([&] { return read_xmc(all, name, {header, zero_based, n_features, n_labels}, n_threads); }));
}

std::optional<std::tuple<Offset, Offset, Offset>> header_of(const py::bytes& line, const std::string& name,
                                                            std::optional<bool> header) {
  const std::optional<XmcHeader> numbers = xmc_header(characters(line), name, header);
  if (!numbers) return std::nullopt;
  return std::tuple(numbers->n_rows, numbers->n_features, numbers->n_labels);
}

py::list texts_of(const std::vector<std::string>& cells) {
  py::list texts(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) texts[i] = py::str(cells[i]);
  return texts;
}

// The cells of the first line; None: more text is needed.
py::object header_cells(CsvReader& reader) {
  const std::optional<std::vector<std::string>> cells = released([&] { return reader.header(); });
  return cells ? py::object(texts_of(*cells)) : py::none();
}

// Rows as numbers, (n, columns of numbers), and a list of cells for each other column; None: more text is needed.
py::object take_rows(CsvReader& reader, const std::vector<std::size_t>& numbers, const std::vector<std::size_t>& cells,
                     std::size_t size, bool all_counted, const std::string& name, const py::sequence& names) {
  std::optional<CsvRows> rows;
  try {
    rows = released([&] { return reader.take({numbers, cells, all_counted}, size); });
  } catch (const NotANumber& fault) {
    throw py::value_error(py::str("{}:{}: {!r} in column {!r} is not a finite number")
                              .format(name, fault.line, fault.cell, names[fault.column])
                              .cast<std::string>());
  }
  if (!rows) return py::none();
  Array<float> values({rows->n_rows, numbers.size()});
  std::ranges::copy(rows->numbers, values.mutable_data());
  py::list texts;
  for (const std::vector<std::string>& column : rows->cells) texts.append(texts_of(column));
  return py::make_tuple(values, texts);
}

auto history_rows(std::span<const Index> items, std::span<const Offset> begins, std::span<const Offset> ends,
                  std::size_t n_last, double decay) {
  const HistoryRows rows = released([&] { return recency_rows({items, begins, ends, n_last}, decay); });
  return std::tuple(array_of(rows.indptr), array_of(rows.indices), array_of(rows.data));
}

auto softmax_draws(const Matrix<const Index>& patterns, double value, const Matrix<const double>& weights,
                   std::span<const Offset> pattern_of_row, std::span<const double> uniforms) {
  const PatternPool pool{patterns.data, patterns.width(), value, weights.data, weights.width()};
  const SoftmaxDraws draws = released([&] { return draw_from_softmax(pool, pattern_of_row, uniforms); });
  return std::tuple(array_of(draws.classes), array_of(draws.log_p), array_of(draws.entropies));
}

// (labels, indptr, indices, how many were left out)
py::tuple columns_of_labels(const LabelWords& rows) {
  const LabelColumns columns = label_columns(rows);
  const py::object labels = columns.numbers.empty() ? py::object(texts_of(columns.texts)) : array_of(columns.numbers);
  return py::make_tuple(labels, array_of(columns.indptr), array_of(columns.indices), columns.n_twice);
}

// (texts, labels, how many rows, texts and labels seem to have changed places or None)
py::tuple texts_with_labels(const LabelledTexts& found, std::size_t fewest) {
  py::object swapped = py::none();
  if (const auto sides = swapped_sides(found, fewest)) {
    swapped = py::make_tuple(sides->n_rows, sides->n_texts, sides->n_labels);
  }
  return py::make_tuple(texts_of(found.texts), found.labels, swapped);
}

// Values and positions of SciPy's matrices.
using AnyValues = std::variant<std::span<const float>, std::span<const double>>;
using AnyPositions = std::variant<std::span<const Index>, std::span<const Offset>>;

py::object units_of(const AnyValues& values, const AnyPositions& indptr) {
  return std::visit([](const auto& v, const auto& p) { return py::object(array_of(unit_rows(v, p))); }, values, indptr);
}

Array<double> largest_of_each_column(const AnyValues& values, const AnyPositions& columns, std::size_t n_columns) {
  return std::visit([=](const auto& v, const auto& c) { return array_of(largest_of_columns(v, c, n_columns)); }, values,
                    columns);
}

}  // namespace

void bind_io(Module& m) {
  m.def("read_xmc", &read_xmc_arrays, py::arg("text").noconvert(), py::arg("name"), py::arg("header").none(true),
        py::arg("zero_based"), py::arg("n_features").none(true), py::arg("n_labels").none(true), py::arg("n_threads"),
        "Parse a text in the XMC repository's form. Returns n_features, n_labels, the arrays indptr, indices, "
        "data of X and indptr, indices of Y.");
  m.def("xmc_header", header_of, "line"_a, "name"_a, "header"_a.none(true),
        "Return the numbers (N, D, L) of a first line that is a header, or None.");
  Class<XmcBlocks>(m, "XmcBlocks")
      .def(
          constructor([](std::string name, std::optional<bool> header, bool zero_based, std::optional<Index> n_features,
                         std::optional<Index> n_labels, std::size_t longest_line, int n_threads) {
            const XmcOptions options{header, zero_based, n_features, n_labels};
            return XmcBlocks(std::move(name), options, longest_line, n_threads);
          }),
          "name"_a, "header"_a.none(true), "zero_based"_a, "n_features"_a.none(true), "n_labels"_a.none(true),
          "longest_line"_a, "n_threads"_a)
      .def(
          "add",
          [](XmcBlocks& self, const py::bytes& piece) {
            const std::span<const char> text = characters(piece);
            return arrays_of(released([&] { return self.add(text); }));
          },
          "piece"_a)
      .def_property_readonly("n_features", &XmcBlocks::n_features)
      .def_property_readonly("n_labels", &XmcBlocks::n_labels);
  Class<CsvReader>(m, "CsvReader")
      .def(constructor([](std::string name, std::string delimiter, char decimal, std::size_t longest_line,
                          std::size_t most_blank) {
             return CsvReader({std::move(name), std::move(delimiter), decimal, longest_line, most_blank});
           }),
           "name"_a, "delimiter"_a, "decimal"_a, "longest_line"_a, "most_blank"_a)
      .def(
          "add",
          [](CsvReader& self, const py::bytes& piece) {
            const auto text = static_cast<std::string_view>(piece);
            released([&] { self.add(text); });
          },
          "piece"_a)
      .def("header", header_cells)
      .def("take", take_rows, "numbers"_a, "cells"_a, "size"_a, "all_counted"_a, "name"_a, "names"_a);
  m.def(
      "read_sparse_arff",
      [](const py::bytes& text, const std::string& name) {
        const ArffRows rows = read_sparse_arff(static_cast<std::string_view>(text), name);
        return std::tuple(rows.n_attributes, array_of(rows.indptr), array_of(rows.columns));
      },
      "text"_a, "name"_a);
  m.def(
      "split_labels",
      [](const std::vector<std::string>& cells, const std::string& separator) {
        LabelWords words;
        for (const std::string& cell : cells) words.push_back(split_labels(cell, separator));
        return words;
      },
      "cells"_a, "separator"_a);
  m.def(
      "tabbed_texts",
      [](const std::vector<std::string>& lines, const std::string& separator, std::size_t fewest) {
        return texts_with_labels(tabbed_texts(lines, separator), fewest);
      },
      "lines"_a, "separator"_a, "fewest"_a);
  m.def(
      "marked_texts",
      [](const std::vector<std::string>& lines, const std::string& mark) {
        const LabelledTexts texts = marked_texts(lines, mark);
        return py::make_tuple(texts_of(texts.texts), texts.labels);
      },
      "lines"_a, "mark"_a);
  m.def("unit_rows", units_of, "values"_a, "indptr"_a);
  m.def("largest_of_columns", largest_of_each_column, "values"_a, "columns"_a, "n_columns"_a);
  m.def("label_columns", columns_of_labels, "rows"_a);
  m.def("all_integers", [](const std::vector<std::string>& labels) { return all_integers(labels); }, "labels"_a);
  m.def(
      "take_svmlight_labels",
      [](std::span<std::uint8_t> text, const std::string& name) {
        return take_svmlight_labels({reinterpret_cast<char*>(text.data()), text.size()}, name);
      },
      "text"_a, "name"_a);
  m.def(
      "known_items",
      [](std::span<const Index> items, std::span<const Offset> starts) {
        const KnownItems known = known_items(items, starts);
        return std::pair(array_of(known.items), array_of(known.starts));
      },
      "items"_a, "starts"_a);
  m.def(
      "next_items",
      [](std::span<const Index> items, std::span<const Offset> starts, std::span<const Offset> n_first) {
        const NextItems rows = next_items(items, starts, n_first);
        return std::tuple(array_of(rows.known.items), array_of(rows.begins), array_of(rows.ends), array_of(rows.labels),
                          array_of(rows.sequences));
      },
      "items"_a, "starts"_a, "n_first"_a);
  m.def("recency_rows", history_rows, "items"_a, "begins"_a, "ends"_a, "n_last"_a, "decay"_a);
  m.def("draw_from_softmax", softmax_draws, "patterns"_a, "value"_a, "weights"_a, "pattern_of_row"_a, "uniforms"_a);
  m.def(
      "is_canonical",
      [](std::span<const Offset> indptr, std::span<const Index> indices, std::span<const float> data,
         py::ssize_t n_features) {
        return is_canonical(CsrView{indptr, indices, data, as_index(n_features, "the number of columns")});
      },
      "indptr"_a, "indices"_a, "data"_a, "n_features"_a,
      "Whether they are a CSR matrix with sorted, distinct columns and finite values.");
}

}  // namespace manyclass
