// The skip-gram model's view of a text: which words count, and which pairs of centre and context they make.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "manyclass/core/rng.hpp"
#include "manyclass/core/types.hpp"

namespace manyclass {

struct SkipGramText {
  std::span<const Index> tokens;      // the words' numbers, in [0, V)
  std::span<const Offset> sentences;  // positions in tokens: sentence s is [sentences[s], sentences[s + 1])
  std::span<const double> keep;       // V probabilities: that sub-sampling leaves a word in
  Index window;                       // number of words on either side of the centre
  bool shrink;                        // whether a centre's window is drawn from 1, ..., window, as word2vec does

  std::size_t n_sentences() const { return sentences.size() - 1; }
  std::span<const Index> sentence(std::size_t s) const {
    const auto begin = static_cast<std::size_t>(sentences[s]);
    return tokens.subspan(begin, static_cast<std::size_t>(sentences[s + 1]) - begin);
  }
};

// Writes the words of a sentence that are kept to the front of `words`, and returns how many. Windows reach over the
// gaps.
inline std::size_t keep_words(const SkipGramText& text, std::size_t s, Rng& rng, std::vector<Index>& words) {
  const std::span<const Index> all = text.sentence(s);
  if (words.size() < all.size()) words.resize(all.size());
  std::size_t n = 0;
  for (const Index word : all) {
    words[n] = word;
    n += rng.uniform() < text.keep[static_cast<std::size_t>(word)] ? 1 : 0;
  }
  return n;
}

struct Window {
  std::size_t begin, end;  // positions in the sentence, the centre's among them
};

inline Window window_around(std::size_t centre, std::size_t reach, std::size_t n_words) {
  return {centre - std::min(centre, reach), std::min(centre + reach + 1, n_words)};
}

}  // namespace manyclass
