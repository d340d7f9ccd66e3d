// Reading of running text as numbers of words: words stand between white space, and a line is a sentence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Gives each distinct word the next number when it is first seen. Text comes in pieces cut anywhere, so that a file of
// any size is read in the memory of its vocabulary.
class TextReader {
 public:
  TextReader() : slots_(1 << 10, empty) {}

  // Appends the number of each word to `tokens`. For each line with words it appends to `ends` the number of tokens up
  // to the line's end, counted since the first piece.
  void add(std::string_view text, std::vector<Index>& tokens, std::vector<Offset>& ends);

  // Says that the text is over, so that its last word and line end here.
  void finish(std::vector<Index>& tokens, std::vector<Offset>& ends);

  // Appends the numbers of the words of one sentence, each of which may hold anything, and the end of one that has
  // some.
  void add_sentence(std::span<const std::string> words, std::vector<Index>& tokens, std::vector<Offset>& ends);

  std::size_t n_words() const { return counts_.size(); }
  std::string_view word(std::size_t i) const {
    return std::string_view(letters_).substr(starts_[i], starts_[i + 1] - starts_[i]);
  }
  std::span<const Offset> counts() const { return counts_; }

 private:
  static constexpr Index empty = -1;

  Index number(std::string_view word);
  void grow();
  void end_line(std::vector<Offset>& ends);

  // A hash table with open addressing holds the numbers of the words. The words themselves stand end to end.
  std::vector<Index> slots_;
  std::vector<std::uint64_t> hashes_;
  std::vector<Offset> counts_;
  std::string letters_;
  std::vector<std::size_t> starts_{0};
  std::string pending_;  // the beginning of a word that the last piece cut
  Offset n_tokens_ = 0;
  Offset last_end_ = 0;
};

// Gives each token its row, in place, and drops those whose row is -1. Returns where each of the sentences that are
// left begins, and where the last one ends; a sentence of more than `longest` tokens is cut.
std::vector<Offset> renumber(std::span<Index> tokens, std::span<const Index> rows, std::span<const Offset> ends,
                             Offset longest);

}  // namespace manyclass
