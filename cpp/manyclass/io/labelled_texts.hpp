// Texts with labels, a text a line, and cells of labels.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manyclass/io/label_words.hpp"

namespace manyclass {

// The labels in a cell, which a separator stands between; without one (empty) the cell is one label. ASCII's blanks
// around labels are none of theirs, and what is blank is no label.
std::vector<std::string> split_labels(std::string_view cell, std::string_view separator);

struct LabelledTexts {
  std::vector<std::string> texts;
  LabelWords labels;
};

// Lines of a text and, behind the last tab if there is one, a cell of its labels.
LabelledTexts tabbed_texts(const std::vector<std::string>& lines, std::string_view separator);

// Lines of words with ASCII's blanks between them, of which those that begin with `mark` are labels.
LabelledTexts marked_texts(const std::vector<std::string>& lines, std::string_view mark);

// Labels that seem to stand where texts should: `fewest` rows or more, in nearly each another label, with more words in
// all than the texts, of which there are half as many or fewer. Nothing could be learnt of such rows.
struct SwappedSides {
  std::size_t n_rows = 0, n_texts = 0, n_labels = 0;
};
std::optional<SwappedSides> swapped_sides(const LabelledTexts& of, std::size_t fewest);

}  // namespace manyclass
