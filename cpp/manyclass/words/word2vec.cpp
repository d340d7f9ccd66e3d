// See word2vec.hpp.
#include "manyclass/words/word2vec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "manyclass/io/decimal.hpp"

namespace manyclass {

namespace {

using namespace std::string_literals;

constexpr std::string_view spaces = " \t\n\r\v\f";

// A file asks for no more memory than it fills.
WordRows rows_for(std::size_t n_words, std::size_t dim, std::size_t bytes_of_number, std::size_t n_bytes,
                  const std::string& name) {
  // A quotient: a product of what a damaged file promises may be beyond all numbers.
  if (n_words > n_bytes || (n_words > 0 && dim > n_bytes / bytes_of_number / n_words)) {
    throw std::invalid_argument(name + " ends early: its first line promises " + std::to_string(n_words) +
                                " words of " + std::to_string(dim) + " numbers, and " + std::to_string(n_bytes) +
                                " bytes follow");
  }
  WordRows rows;
  rows.words.reserve(n_words);
  rows.vectors.reserve(n_words * dim);
  return rows;
}

[[noreturn]] void refuse(const std::string& name, std::size_t word, const std::string& what) {
  throw std::invalid_argument(name + ", line " + std::to_string(word + 2) + ": " + what);
}

}  // namespace

WordRows word_rows_of_text(std::string_view text, std::size_t n_words, std::size_t dim, const std::string& name) {
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  const auto n_lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + (text.empty() ? 0 : 1);
  if (n_lines < n_words) {
    throw std::invalid_argument(name + " has " + std::to_string(n_lines) + " words; its first line promises " +
                                std::to_string(n_words));
  }
  WordRows rows = rows_for(n_words, dim, 2, text.size(), name);  // a number has a space before it
  std::size_t at = 0;
  for (std::size_t i = 0; i < n_words; ++i) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    line = line.substr(0, line.find_last_not_of(spaces) + 1);
    at = end + 1;
    std::size_t space = line.find(' ');
    rows.words.emplace_back(line.substr(0, space));
    std::size_t n_numbers = 0;
    while (space != std::string_view::npos) {
      const std::size_t begin = space + 1;
      space = line.find(' ', begin);
      const std::string_view cell = line.substr(begin, space == std::string_view::npos ? space : space - begin);
      const Decimal number = read_decimal(cell.data(), cell.data() + cell.size());
      if (number.end != cell.data() + cell.size() || number.overflow)
        refuse(name, i, "'"s.append(cell).append("' is no finite number"));
      if (n_numbers++ < dim) rows.vectors.push_back(number.value);
    }
    if (n_numbers != dim) {
      refuse(name, i, std::to_string(n_numbers) + " numbers; its first line promises " + std::to_string(dim));
    }
  }
  return rows;
}

WordRows word_rows_of_bytes(std::string_view bytes, std::size_t n_words, std::size_t dim, const std::string& name) {
  WordRows rows = rows_for(n_words, dim, 4, bytes.size(), name);
  std::size_t at = 0;
  for (std::size_t i = 0; i < n_words; ++i) {
    const std::size_t space = bytes.find(' ', at);
    if (space == std::string_view::npos || bytes.size() - space - 1 < 4 * dim) {
      throw std::invalid_argument(name + " ends in word " + std::to_string(i + 1) + "; its first line promises " +
                                  std::to_string(n_words) + " words");
    }
    // word2vec ends rows with a newline, others do not.
    while (at < space && bytes[at] == '\n') ++at;
    rows.words.emplace_back(bytes.substr(at, space - at));
    at = space + 1;
    for (std::size_t j = 0; j < dim; ++j, at += 4) {
      std::uint32_t bits = 0;
      for (std::size_t b = 0; b < 4; ++b) {
        bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + b])) << (8 * b);
      }
      rows.vectors.push_back(std::bit_cast<float>(bits));
    }
    for (std::size_t j = rows.vectors.size() - dim; j < rows.vectors.size(); ++j) {
      if (!std::isfinite(rows.vectors[j])) {
        throw std::invalid_argument(name + ": the vector of '" + rows.words.back() +
                                    "' has a number that is not finite");
      }
    }
  }
  return rows;
}

}  // namespace manyclass
