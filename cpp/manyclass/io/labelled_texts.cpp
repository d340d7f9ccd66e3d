// See labelled_texts.hpp.
#include "manyclass/io/labelled_texts.hpp"

#include <algorithm>
#include <unordered_set>

namespace manyclass {

namespace {

constexpr std::string_view blanks = " \t\n\r\v\f";
constexpr double nearly_each = 0.9;  // row has another label

std::string_view stripped(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (&word == words.data() ? "" : " ") + word;
  return text;
}

std::ptrdiff_t n_blanks(std::string_view text) { return std::ranges::count(text, ' '); }

}  // namespace

std::vector<std::string> split_labels(std::string_view cell, std::string_view separator) {
  std::vector<std::string> labels;
  while (true) {
    const std::size_t end = separator.empty() ? cell.size() : std::min(cell.find(separator), cell.size());
    if (const std::string_view label = stripped(cell.substr(0, end)); !label.empty()) labels.emplace_back(label);
    if (end == cell.size()) return labels;
    cell.remove_prefix(end + separator.size());
  }
}

LabelledTexts tabbed_texts(const std::vector<std::string>& lines, std::string_view separator) {
  LabelledTexts found;
  for (const std::string_view line : lines) {
    const std::size_t tab = std::min(line.rfind('\t'), line.size());
    found.texts.emplace_back(line.substr(0, tab));
    found.labels.push_back(tab == line.size() ? std::vector<std::string>()
                                              : split_labels(line.substr(tab + 1), separator));
  }
  return found;
}

LabelledTexts marked_texts(const std::vector<std::string>& lines, std::string_view mark) {
  LabelledTexts found;
  for (const std::string_view line : lines) {
    std::vector<std::string> words, labels;
    for (std::size_t at = line.find_first_not_of(blanks); at < line.size();) {
      const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
      const std::string_view word = line.substr(at, end - at);
      if (word.starts_with(mark)) {
        labels.emplace_back(word.substr(mark.size()));
      } else {
        words.emplace_back(word);
      }
      at = line.find_first_not_of(blanks, end);
    }
    found.texts.push_back(joined(words));
    found.labels.push_back(std::move(labels));
  }
  return found;
}

std::optional<SwappedSides> swapped_sides(const LabelledTexts& of, std::size_t fewest) {
  std::unordered_set<std::string> texts, labels;
  std::size_t n_rows = 0;
  std::ptrdiff_t more = 0;  // words of labels than of texts
  for (std::size_t i = 0; i < of.texts.size(); ++i) {
    if (of.labels[i].empty()) continue;
    const std::string label = joined(of.labels[i]);
    ++n_rows;
    more += n_blanks(label) - n_blanks(of.texts[i]);
    texts.insert(of.texts[i]);
    labels.insert(label);
  }
  if (n_rows < fewest || static_cast<double>(labels.size()) <= nearly_each * static_cast<double>(n_rows) ||
      2 * texts.size() > labels.size() || more <= 0) {
    return std::nullopt;
  }
  return SwappedSides{n_rows, texts.size(), labels.size()};
}

}  // namespace manyclass
