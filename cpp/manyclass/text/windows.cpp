// See windows.hpp.
#include "manyclass/text/windows.hpp"

#include <stdexcept>

namespace manyclass {

void check(const SkipGramText& text) {
  if (text.sentences.empty() || text.sentences.front() != 0 ||
      text.sentences.back() != static_cast<Offset>(text.tokens.size())) {
    throw std::invalid_argument("the sentences do not cover the tokens");
  }
  if (!std::ranges::is_sorted(text.sentences)) throw std::invalid_argument("the sentences' positions decrease");
  for (const Index word : text.tokens) {
    if (word < 0 || static_cast<std::size_t>(word) >= text.keep.size()) {
      throw std::invalid_argument("a token is not a word of the vocabulary");
    }
  }
  if (text.window < 1) throw std::invalid_argument("window is less than 1");
}

}  // namespace manyclass
