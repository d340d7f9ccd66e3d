// The vocabulary of a text: which of its words have a row, and in which order.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "manyclass/text/reader.hpp"

namespace manyclass {

struct Vocabulary {
  std::vector<std::string> words;  // most frequent first, equally frequent ones in the order of their code points
  std::vector<Offset> counts;      // in the text and before it
  std::vector<Index> rows;         // of each number of the reader, -1: none
  std::size_t n_found = 0;         // words of the text that have a row
};

// The words that a text has at least `least` times, and the known ones with their counts before it.
Vocabulary vocabulary_of(const TextReader& text, Offset least, std::span<const std::pair<std::string, Offset>> known);

// The probability that sub-sampling leaves each word in: sqrt(r) + r by word2vec's rule, else sqrt(r), at most 1, where
// r is `sample` over the word's share of the text. With sample = 0 all words stay. Counts are above 0.
std::vector<double> kept_shares(std::span<const Offset> counts, double sample, bool by_word2vec);

}  // namespace manyclass
