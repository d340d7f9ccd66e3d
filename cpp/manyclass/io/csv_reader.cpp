// See csv_reader.hpp.
#include "manyclass/io/csv_reader.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "manyclass/io/decimal.hpp"

namespace manyclass {

namespace {

constexpr char blanks[] = " \t\n\r\v\f";

bool ends_line(char c) { return c == '\n' || c == '\r'; }

// The number that a cell is; nothing where it is none.
std::optional<float> number_in(std::string_view cell, char decimal, std::string& room) {
  const std::size_t first = cell.find_first_not_of(blanks);
  if (first == std::string_view::npos) return std::nullopt;
  cell = cell.substr(first, cell.find_last_not_of(blanks) - first + 1);
  if (decimal != '.') {  // of 1.234,5 nothing tells what its point means
    if (cell.find('.') != std::string_view::npos) return std::nullopt;
    room.assign(cell);
    std::ranges::replace(room, decimal, '.');
    cell = room;
  }
  const Decimal found = read_decimal(cell.data(), cell.data() + cell.size());
  if (found.end != cell.data() + cell.size() || found.overflow) return std::nullopt;
  return found.value;
}

}  // namespace

std::size_t first_not_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t n_more = lead >= 0xc2 && lead < 0xe0 ? 1 : lead >= 0xe0 && lead < 0xf0 ? 2 : 3;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - i <= n_more) return i;
    // The second byte of some sequences has a range of its own: no character has two encodings, nor is a surrogate.
    const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i + 1) < low || byte(i + 1) > high) return i;
    for (std::size_t j = 2; j <= n_more; ++j) {
      if ((byte(i + j) & 0xc0) != 0x80) return i;
    }
    i += n_more + 1;
  }
  return text.size();
}

void CsvReader::add(std::string_view piece) {
  if (at_ > 0) text_.erase(0, std::exchange(at_, 0));
  text_ += piece;
  has_ended_ = piece.empty();
}

void CsvReader::refuse(std::size_t line, const std::string& what) const {
  throw std::invalid_argument(options_.name + ":" + std::to_string(line) + ": " + what);
}

void CsvReader::check_text(std::string_view row) const {
  const std::size_t at = first_not_utf8(row);
  if (at == row.size()) return;
  const std::string_view before = row.substr(0, at);
  std::size_t line = row_line_;
  for (std::size_t i = 0; i < before.size(); ++i) {
    line += before[i] == '\n' || (before[i] == '\r' && (i + 1 == row.size() || row[i + 1] != '\n')) ? 1 : 0;
  }
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>(row[at])));
  const bool is_wide = line == 1 && at == 0 && (row.starts_with("\xff\xfe") || row.starts_with("\xfe\xff"));
  const std::string kind = is_wide ? "UTF-16" : "LATIN1";
  refuse(line, std::string("byte ") + byte + " is not UTF-8 text; if it is " + kind + ", convert it: iconv -f " + kind +
                   " -t UTF-8");
}

// Reads a cell from p and returns where it stops: at a delimiter, at the end of a line or at `end`. `whole` becomes
// false where a quote is open there.
const char* CsvReader::read_cell(const char* p, const char* end, std::string& cell, bool& whole) {
  cell.clear();
  if (p != end && *p == '"') {
    std::size_t n_lines = 0;
    for (++p;; ++p) {
      const auto* const stop = static_cast<const char*>(std::memchr(p, '"', static_cast<std::size_t>(end - p)));
      const char* const until = stop == nullptr ? end : stop;
      for (const char* c = p; c != until; ++c) n_lines += *c == '\n' || (*c == '\r' && (c + 1 == end || c[1] != '\n'));
      if (n_lines > options_.most_blank) {
        refuse(line_, "a cell in quotes has more than " + std::to_string(options_.most_blank) + " lines");
      }
      cell.append(p, until);
      if (stop == nullptr) {
        whole = false;
        return end;
      }
      p = stop + 1;
      if (p == end || *p != '"') break;
      cell += '"';
    }
  }
  const std::string& delimiter = options_.delimiter;
  const char* const begin = p;
  while (p != end && !ends_line(*p) &&
         !(*p == delimiter[0] && std::string_view(p, static_cast<std::size_t>(end - p)).starts_with(delimiter))) {
    ++p;
  }
  cell.append(begin, p);
  return p;
}

// Reads the cells of the next row, or steps over a blank line; leaves all as it was where the text is too short.
CsvReader::Found CsvReader::next_row() {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (!has_begun_) {
    if (text_.size() < byte_order_mark.size() && !has_ended_) return Found::more;
    has_begun_ = true;
    if (text_.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
  }
  const char* const begin = text_.data() + at_;
  const char* const end = text_.data() + text_.size();
  if (begin == end) return has_ended_ ? Found::end : Found::more;
  bool whole = true;
  n_cells_ = 0;
  const char* p = begin;
  while (true) {
    if (n_cells_ == cells_.size()) cells_.emplace_back();
    p = read_cell(p, end, cells_[n_cells_++], whole);
    if (p == end || ends_line(*p)) break;
    p += options_.delimiter.size();
  }
  if (static_cast<std::size_t>(p - begin) > options_.longest_line) {
    refuse(line_, "this line is longer than " + std::to_string(options_.longest_line) + " characters");
  }
  // A carriage return may be the first half of an end that the next piece completes.
  if (!has_ended_ && (p == end || (*p == '\r' && p + 1 == end))) return Found::more;
  if (!whole) {
    throw std::invalid_argument(options_.name + ": a cell in quotes behind line " + std::to_string(line_ - 1) +
                                " does not end");
  }
  row_line_ = line_;
  const bool is_blank = p == begin;
  if (p != end) p += p + 1 != end && p[0] == '\r' && p[1] == '\n' ? 2 : 1;
  for (const char* c = begin; c != p; ++c) line_ += *c == '\n' || (*c == '\r' && (c + 1 == p || c[1] != '\n')) ? 1 : 0;
  at_ += static_cast<std::size_t>(p - begin);
  if (is_blank) {
    if (++n_blank_ > options_.most_blank) {
      refuse(row_line_, "more than " + std::to_string(options_.most_blank) + " lines before this one are blank");
    }
    if (n_columns_ > 0 && blank_at_ == 0) blank_at_ = row_line_;
    return Found::blank;
  }
  if (blank_at_ > 0) refuse(blank_at_, "the line is blank; it must have a cell for each column");
  n_blank_ = 0;
  check_text({begin, static_cast<std::size_t>(p - begin)});
  return Found::row;
}

std::optional<std::vector<std::string>> CsvReader::header() {
  while (true) {
    switch (next_row()) {
      case Found::more:
        return std::nullopt;
      case Found::end:
        throw std::invalid_argument(options_.name + ": it is empty; the first line must name the columns");
      case Found::blank:
        break;
      case Found::row:
        n_columns_ = n_cells_;
        return std::vector(cells_.begin(), cells_.begin() + static_cast<std::ptrdiff_t>(n_cells_));
    }
  }
}

void CsvReader::append(const CsvColumns& columns) {
  std::size_t least = n_columns_;
  if (!columns.all_counted) least = 1 + std::ranges::max(columns.cells);
  if (n_cells_ < least || (columns.all_counted && n_cells_ > n_columns_)) {
    refuse(row_line_,
           "there are " + std::to_string(n_cells_) + " cells; the columns are " + std::to_string(n_columns_));
  }
  std::string room;
  for (const std::size_t column : columns.numbers) {
    const std::optional<float> number = number_in(cells_[column], options_.decimal, room);
    if (!number) throw NotANumber(row_line_, column, cells_[column]);
    pending_.numbers.push_back(*number);
  }
  for (std::size_t i = 0; i < columns.cells.size(); ++i) pending_.cells[i].push_back(cells_[columns.cells[i]]);
  ++pending_.n_rows;
}

std::optional<CsvRows> CsvReader::take(const CsvColumns& columns, std::size_t size) {
  for (const auto* const some : {&columns.numbers, &columns.cells}) {
    if (std::ranges::any_of(*some, [&](std::size_t column) { return column >= n_columns_; })) {
      throw std::invalid_argument("there is no such column");
    }
  }
  if (columns.numbers.empty() && columns.cells.empty()) throw std::invalid_argument("no column is asked for");
  pending_.cells.resize(columns.cells.size());
  while (pending_.n_rows < size) {
    const Found found = next_row();
    if (found == Found::more) return std::nullopt;
    if (found == Found::end) break;
    if (found == Found::row) append(columns);
  }
  return std::exchange(pending_, {});
}

}  // namespace manyclass
