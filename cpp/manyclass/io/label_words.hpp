// Labels that are words: their columns, and those of svmlight's form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

using LabelWords = std::vector<std::vector<std::string>>;  // of each row

// A column for each distinct label, sorted: as numbers where each label is an integer that is written in one way and
// fits into 64 bits, else by code points.
struct LabelColumns {
  std::vector<std::int64_t> numbers;  // empty where labels are texts
  std::vector<std::string> texts;
  std::vector<Offset> indptr;
  std::vector<Index> indices;  // in the order of each row, where a label counts once
  std::size_t n_twice = 0;     // labels of rows that were left out for this
};

LabelColumns label_columns(const LabelWords& rows);

// Whether labels are integers as Python writes them: 02139, +1 and ids of 19 digits are texts.
bool all_integers(std::span<const std::string> labels);

// A number as the integer that it is, +1 and 1.0 as 1; another word, and an integer of 2^53 or more, as it stands.
std::string plain_number(const std::string& word);

// The labels of the rows `label,... j:v j:v ...` of a text, in whose place 0 and blanks are written, so that the text
// can be parsed as the XMC form. Comments behind '#' are no rows, blank lines are rows without labels. Throws
// std::invalid_argument that begins with "name:line: " where a label is not UTF-8, or too many lines are blank.
LabelWords take_svmlight_labels(std::span<char> text, const std::string& name);

}  // namespace manyclass
