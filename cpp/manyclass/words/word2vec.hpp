// Word vectors in the two formats of word2vec, behind the line with the numbers of words and dimensions.
//
//   text     on each line a word and its numbers, a space before each
//   binary   a word, a space and its numbers as floats of four bytes, lowest byte first; a newline may follow
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace manyclass {

struct WordRows {
  std::vector<std::string> words;
  std::vector<float> vectors;  // `dim` numbers for each word
};

// Throw std::invalid_argument that begins with `name` where the text has fewer words, another number of numbers, or, as
// text, what is no finite number. Memory is asked for where the text is long enough for what is promised.
WordRows word_rows_of_text(std::string_view text, std::size_t n_words, std::size_t dim, const std::string& name);
WordRows word_rows_of_bytes(std::string_view bytes, std::size_t n_words, std::size_t dim, const std::string& name);

}  // namespace manyclass
