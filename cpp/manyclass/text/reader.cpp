// Numbering of the words of a text, which reader.hpp describes.
#include "manyclass/text/reader.hpp"

#include <limits>
#include <stdexcept>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/rng.hpp"

namespace manyclass {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The hash is FNV-1a, with its low bits mixed.
std::uint64_t hash_of(std::string_view word) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : word) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix64(h);
}

}  // namespace

void TextReader::add(std::string_view text, std::vector<Index>& tokens, std::vector<Offset>& ends) {
  std::size_t i = 0;
  while (i < text.size()) {
    if (is_space(text[i])) {
      if (!pending_.empty()) {
        tokens.push_back(number(pending_));
        pending_.clear();
      }
      if (text[i] == '\n') end_line(ends);
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && !is_space(text[end])) ++end;
    const std::string_view piece = text.substr(i, end - i);
    if (end == text.size() || !pending_.empty()) {
      pending_ += piece;  // the word's end is not known yet, or its beginning came before
    } else {
      tokens.push_back(number(piece));
    }
    i = end;
  }
}

void TextReader::finish(std::vector<Index>& tokens, std::vector<Offset>& ends) { add("\n", tokens, ends); }

void TextReader::add_sentence(std::span<const std::string> words, std::vector<Index>& tokens,
                              std::vector<Offset>& ends) {
  for (const std::string& word : words) tokens.push_back(number(word));
  end_line(ends);
}

void TextReader::end_line(std::vector<Offset>& ends) {
  if (n_tokens_ > last_end_) ends.push_back(n_tokens_);
  last_end_ = n_tokens_;
}

Index TextReader::number(std::string_view text) {
  ++n_tokens_;
  const std::uint64_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  for (; slots_[slot] != empty; slot = (slot + 1) & mask) {
    const auto i = static_cast<std::size_t>(slots_[slot]);
    if (hashes_[i] == hash && word(i) == text) {
      ++counts_[i];
      return slots_[slot];
    }
  }
  if (counts_.size() == static_cast<std::size_t>(std::numeric_limits<Index>::max())) {
    throw std::invalid_argument("the text has more than 2147483647 distinct words");
  }
  const auto i = static_cast<Index>(counts_.size());
  slots_[slot] = i;
  hashes_.push_back(hash);
  counts_.push_back(1);
  letters_ += text;
  starts_.push_back(letters_.size());
  if (2 * counts_.size() > slots_.size()) grow();
  return i;
}

void TextReader::grow() {
  slots_.assign(2 * slots_.size(), empty);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < hashes_.size(); ++i) {
    std::size_t slot = hashes_[i] & mask;
    while (slots_[slot] != empty) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<Index>(i);
  }
}

std::vector<Offset> renumber(std::span<Index> tokens, std::span<const Index> rows, std::span<const Offset> ends,
                             Offset longest) {
  std::vector<Offset> starts{0};
  std::size_t at = 0, kept = 0;
  for (const Offset end : ends) {
    if (end < static_cast<Offset>(at) || end > static_cast<Offset>(tokens.size()) || longest < 1) {
      throw std::invalid_argument("the ends of sentences do not fit the tokens");
    }
    poll(static_cast<std::size_t>(end) - at);
    for (; at < static_cast<std::size_t>(end); ++at) {
      const auto token = static_cast<std::size_t>(tokens[at]);
      if (token >= rows.size()) throw std::invalid_argument("a token is the number of no word");
      if (rows[token] >= 0) tokens[kept++] = rows[token];
    }
    const auto last = static_cast<Offset>(kept);
    while (last - starts.back() > longest) starts.push_back(starts.back() + longest);
    if (last > starts.back()) starts.push_back(last);
  }
  return starts;
}

}  // namespace manyclass
