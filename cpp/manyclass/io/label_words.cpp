// See label_words.hpp.
#include "manyclass/io/label_words.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "manyclass/io/csv_reader.hpp"
#include "manyclass/io/decimal.hpp"
#include "manyclass/io/xmc_reader.hpp"

namespace manyclass {

namespace {

constexpr std::size_t most_digits = 18;  // of integers that fit into 64 bits, whatever they are

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_integer(std::string_view word) {
  if (word == "0") return true;
  const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
  return !digits.empty() && digits.size() <= most_digits && digits[0] != '0' && std::ranges::all_of(digits, is_digit);
}

std::int64_t integer_of(const std::string& word) {
  std::int64_t value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

std::string shown(std::string_view bytes) {
  std::string text = "b'";
  for (const char c : bytes) {
    char escape[5] = {c, '\0'};
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code >= 0x7f) std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(code));
    text += escape;
  }
  return text + "'";
}

// Places of distinct words in sorted order, by f(word).
template <class F>
std::vector<Index> sorted_places(std::vector<std::string>& words, const F& f) {
  std::vector<std::size_t> order(words.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t at) -> decltype(auto) { return f(words[at]); });
  std::vector<Index> places(words.size());
  std::vector<std::string> sorted(words.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    places[order[place]] = static_cast<Index>(place);
    sorted[place] = std::move(words[order[place]]);
  }
  words = std::move(sorted);
  return places;
}

}  // namespace

bool all_integers(std::span<const std::string> labels) {
  return std::ranges::all_of(labels, [](const std::string& label) { return is_integer(label); });
}

LabelColumns label_columns(const LabelWords& rows) {
  LabelColumns found;
  found.indptr.assign(1, 0);
  std::unordered_map<std::string_view, Index> place_of;
  std::vector<Offset> first_behind;  // where the row that had each label last begins, + 1
  for (const std::vector<std::string>& row : rows) {
    const Offset begin = found.indptr.back() + 1;
    for (const std::string& word : row) {
      const auto [entry, is_new] = place_of.try_emplace(word, static_cast<Index>(found.texts.size()));
      if (is_new) {
        found.texts.push_back(word);
        first_behind.push_back(0);
      }
      Offset& last = first_behind[static_cast<std::size_t>(entry->second)];
      if (last != begin) {
        found.indices.push_back(entry->second);
      } else {
        ++found.n_twice;
      }
      last = begin;
    }
    found.indptr.push_back(static_cast<Offset>(found.indices.size()));
  }
  const bool numbers = !found.texts.empty() && all_integers(found.texts);
  const std::vector<Index> places = numbers
                                        ? sorted_places(found.texts, integer_of)
                                        : sorted_places(found.texts, [](const auto& w) -> const auto& { return w; });
  for (Index& index : found.indices) index = places[static_cast<std::size_t>(index)];
  if (numbers) {
    std::ranges::transform(found.texts, std::back_inserter(found.numbers), integer_of);
    found.texts.clear();
  }
  return found;
}

std::string plain_number(const std::string& word) {
  const char* p = word.data();
  const char* const end = p + word.size();
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+')) ++p;
  std::string digits;
  for (; p != end && is_digit(*p); ++p) digits += *p;
  std::ptrdiff_t zeros = 0;  // behind the digits; of a fraction less than none
  if (p != end && *p == '.') {
    for (++p; p != end && is_digit(*p); ++p, --zeros) digits += *p;
  }
  if (digits.empty()) return word;
  if (p != end && (*p == 'e' || *p == 'E')) {
    p += p + 1 != end && p[1] == '+' ? 2 : 1;
    int exponent = 0;
    const auto [stop, fault] = std::from_chars(p, end, exponent);
    if (fault != std::errc() || stop != end) return word;
    p = stop;
    zeros += exponent;
  }
  if (p != end) return word;
  while (zeros < 0 && digits.size() > 1 && digits.back() == '0') {
    digits.pop_back();
    ++zeros;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits == "0") return "0";
  if (zeros < 0 || zeros > static_cast<std::ptrdiff_t>(most_digits)) return word;
  digits.append(static_cast<std::size_t>(zeros), '0');
  constexpr std::int64_t limit = std::int64_t{1} << 53;  // below which a double tells integers apart
  if (digits.size() > most_digits || integer_of(digits) >= limit) return word;
  return (negative ? "-" : "") + digits;
}

LabelWords take_svmlight_labels(std::span<char> text, const std::string& name) {
  LabelWords rows;
  char* p = text.data();
  char* const end = p + text.size();
  std::size_t n_blank = 0;
  for (std::size_t line = 1; p != end; ++line) {
    auto* const stop = std::find(p, end, '\n');
    const char* const data_end = std::find(p, stop, '#');
    char* const first = std::find_if_not(p, stop, is_space);
    char* const field_end = std::find_if(first, stop, [&](const char& c) { return &c >= data_end || is_space(c); });
    n_blank = first == stop ? n_blank + 1 : 0;
    if (n_blank > most_blank_lines) refuse_blank_lines(name, line);
    if (first == stop) rows.emplace_back();
    if (first < data_end) {
      const std::string_view field(first, static_cast<std::size_t>(field_end - first));
      std::vector<std::string>& words = rows.emplace_back();
      if (first == p && field.find(':') == std::string_view::npos) {
        if (first_not_utf8(field) != field.size()) {
          throw std::invalid_argument(name + ":" + std::to_string(line) + ": the label " + shown(field) +
                                      " is not UTF-8 text");
        }
        for (std::size_t at = 0; at <= field.size();) {
          const std::size_t comma = std::min(field.find(',', at), field.size());
          if (comma > at) words.push_back(plain_number(std::string(field.substr(at, comma - at))));
          at = comma + 1;
        }
        std::fill(first, field_end, ' ');
        *first = '0';
      }
    }
    p = stop == end ? end : stop + 1;
  }
  return rows;
}

}  // namespace manyclass
