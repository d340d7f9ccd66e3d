// Reading of tables, CSV and TSV, as their text comes in pieces: numbers of some columns, and the cells of others.
//
// The first line that is not blank names the columns, and each row must have a cell for each of them. Lines end with
// "\n", "\r\n" or "\r". Blank lines may stand before the first row and behind the last one. A quote at the beginning of
// a cell opens it to delimiters and ends of lines until the next quote; two of them are one. A quote elsewhere is a
// letter.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace manyclass {

struct CsvOptions {
  std::string name;                    // what messages call the file
  std::string delimiter;               // one character of UTF-8
  char decimal = '.';                  // what stands before the fraction of a number; of ',' no number has a point
  std::size_t longest_line = 1 << 27;  // in bytes
  std::size_t most_blank = 1'000'000;  // blank lines one after the other, and lines of a cell in quotes
};

// A cell that is no finite number of single precision.
struct NotANumber : std::invalid_argument {
  NotANumber(std::size_t line_of_row, std::size_t column_of_table, std::string text)
      : std::invalid_argument("a cell is not a finite number"),
        line(line_of_row),
        column(column_of_table),
        cell(std::move(text)) {}

  std::size_t line, column;
  std::string cell;
};

struct CsvRows {
  std::size_t n_rows = 0;
  std::vector<float> numbers;                   // n_rows x the columns of numbers
  std::vector<std::vector<std::string>> cells;  // of each other column that is asked for
};

// Which columns of a table are read, at least one, and how.
struct CsvColumns {
  std::vector<std::size_t> numbers, cells;
  bool all_counted = true;  // whether each row must have a cell for each column; else for those that are asked for
};

class CsvReader {
 public:
  explicit CsvReader(CsvOptions options) : options_(std::move(options)) {}

  // Appends a piece of the text; an empty one ends it.
  void add(std::string_view piece);

  // The cells of the first line; nothing: more text is needed. Throws std::invalid_argument where there is none.
  std::optional<std::vector<std::string>> header();

  // Up to `size` rows, fewer at the end of the text only; nothing: more text is needed. The columns are the same in all
  // calls. Throws NotANumber, or std::invalid_argument that begins with "name:line: ".
  std::optional<CsvRows> take(const CsvColumns& columns, std::size_t size);

 private:
  enum class Found { row, blank, end, more };

  Found next_row();
  const char* read_cell(const char* p, const char* end, std::string& cell, bool& whole);
  void check_text(std::string_view row) const;
  void append(const CsvColumns& columns);
  [[noreturn]] void refuse(std::size_t line, const std::string& what) const;

  CsvOptions options_;
  std::string text_;
  std::size_t at_ = 0;  // of the next row in the text
  bool has_begun_ = false, has_ended_ = false;
  std::size_t line_ = 1, row_line_ = 1;     // of the next row, and of the one that was read last
  std::size_t n_columns_ = 0;               // 0: the header was not read yet
  std::size_t n_blank_ = 0, blank_at_ = 0;  // blank lines before the next row, and the first of them behind a row
  std::vector<std::string> cells_;          // of the row that was read last
  std::size_t n_cells_ = 0;
  CsvRows pending_;
};

// Where a text stops being UTF-8 as Unicode defines it; its size: nowhere.
std::size_t first_not_utf8(std::string_view text);

}  // namespace manyclass
