// Any bytes as running text. The first byte is the length of the pieces that it comes in; the others are the text.
//
// The words and the ends of lines are those that the C++ library's streams find, and do not depend on the pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "manyclass/text/reader.hpp"
#include "require.hpp"

namespace {

using namespace manyclass;

void require_words_of(const std::string& text, const TextReader& reader, const std::vector<Index>& tokens,
                      const std::vector<Offset>& ends) {
  std::istringstream lines(text);
  std::map<std::string, Index> numbers;
  std::size_t n_tokens = 0;
  std::size_t n_lines = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    const std::size_t before = n_tokens;
    for (std::string word; words >> word; ++n_tokens) {
      const Index number = numbers.emplace(word, static_cast<Index>(numbers.size())).first->second;
      REQUIRE(n_tokens < tokens.size());
      REQUIRE(tokens[n_tokens] == number);
      REQUIRE(reader.word(static_cast<std::size_t>(number)) == word);
    }
    if (n_tokens == before) continue;
    REQUIRE(n_lines < ends.size());
    REQUIRE(ends[n_lines] == static_cast<Offset>(n_tokens));
    ++n_lines;
  }
  REQUIRE(n_tokens == tokens.size());
  REQUIRE(n_lines == ends.size());
  REQUIRE(reader.n_words() == numbers.size());
  std::vector<Offset> counts(numbers.size());
  for (const Index token : tokens) ++counts[static_cast<std::size_t>(token)];
  REQUIRE(std::vector<Offset>(reader.counts().begin(), reader.counts().end()) == counts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + std::size_t{*bytes};
  const std::string text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  TextReader reader;
  std::vector<Index> tokens;
  std::vector<Offset> ends;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    // In memory of its own, so that ASan sees what is read behind the end of a piece.
    const std::vector<char> part(text.begin() + static_cast<std::ptrdiff_t>(at),
                                 text.begin() + static_cast<std::ptrdiff_t>(std::min(at + piece, text.size())));
    reader.add({part.data(), part.size()}, tokens, ends);
  }
  reader.finish(tokens, ends);
  require_words_of(text, reader, tokens, ends);
  return 0;
}
