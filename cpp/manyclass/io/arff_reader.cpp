// See arff_reader.hpp.
#include "manyclass/io/arff_reader.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "manyclass/io/decimal.hpp"

namespace manyclass {

namespace {

constexpr std::string_view blanks = " \t\r\v\f";
constexpr std::size_t shown = 40;  // characters of a wrong row in a message

std::string_view stripped(std::string_view text, std::string_view of) {
  const std::size_t begin = std::min(text.find_first_not_of(of), text.size());
  return text.substr(begin, text.find_last_not_of(of) + 1 - begin);
}

bool begins_with(std::string_view line, std::string_view word) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return line.size() >= word.size() &&
         std::equal(word.begin(), word.end(), line.begin(), [&](char b, char a) { return same(a, b); });
}

// Calls f(part) with what stands between separators.
template <class F>
void split(std::string_view text, char separator, const F& f) {
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    f(text.substr(0, end));
    if (end == text.size()) return;
    text.remove_prefix(end + 1);
  }
}

// Adds the column of a cell whose value is not 0; returns whether it is a cell.
bool add_cell(std::string_view cell, std::vector<Index>& columns) {
  const std::size_t middle = cell.find_first_of(blanks);
  if (middle == std::string_view::npos) return false;
  const std::string_view value = stripped(cell.substr(middle), " \t\r\v\f'\"");
  Index column = 0;
  const auto [stop, fault] = std::from_chars(cell.data(), cell.data() + middle, column);
  const Decimal number = read_decimal(value.data(), value.data() + value.size());
  if (fault != std::errc() || stop != cell.data() + middle || number.end != value.data() + value.size()) return false;
  if (number.value != 0) columns.push_back(column);
  return true;
}

}  // namespace

ArffRows read_sparse_arff(std::string_view text, const std::string& name) {
  ArffRows rows;
  rows.indptr.assign(1, 0);
  bool in_data = false;
  split(text, '\n', [&](std::string_view whole) {
    const std::string_view line = stripped(whole, blanks);
    if (!in_data) {
      rows.n_attributes += begins_with(line, "@attribute") ? 1 : 0;
      in_data = begins_with(line, "@data");
    } else if (!line.empty() && line[0] != '%') {
      bool good = line[0] == '{';
      split(stripped(line, "{}"), ',', [&](std::string_view cell) {
        cell = stripped(cell, blanks);
        good = good && (cell.empty() || add_cell(cell, rows.columns));
      });
      if (!good) {
        throw std::invalid_argument(name + ": the row '" + std::string(line.substr(0, shown)) +
                                    "' is not in the sparse form");
      }
      rows.indptr.push_back(static_cast<Offset>(rows.columns.size()));
    }
  });
  return rows;
}

}  // namespace manyclass
