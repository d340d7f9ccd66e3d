// See vocabulary.hpp.
#include "manyclass/text/vocabulary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace manyclass {

namespace {

struct Entry {
  std::string_view word;
  Offset count;
  Index number;  // in the text, -1: it is known and not there
};

}  // namespace

Vocabulary vocabulary_of(const TextReader& text, Offset least, std::span<const std::pair<std::string, Offset>> known) {
  std::vector<Entry> entries;
  std::unordered_map<std::string_view, std::size_t> place;  // of known words among the entries
  for (const auto& [word, count] : known) {
    place.emplace(word, entries.size());
    entries.push_back({word, count, -1});
  }
  Vocabulary made;
  for (std::size_t i = 0; i < text.n_words(); ++i) {
    const std::string_view word = text.word(i);
    const Offset count = text.counts()[i];
    const auto found = place.find(word);
    if (found != place.end()) {
      entries[found->second].count += count;
      entries[found->second].number = static_cast<Index>(i);
    } else if (count >= least) {
      entries.push_back({word, count, static_cast<Index>(i)});
    } else {
      continue;
    }
    ++made.n_found;
  }
  // Bytes of UTF-8 have the order of the code points.
  std::ranges::sort(
      entries, [](const Entry& a, const Entry& b) { return a.count != b.count ? a.count > b.count : a.word < b.word; });
  made.rows.assign(text.n_words(), -1);
  for (std::size_t row = 0; row < entries.size(); ++row) {
    const Entry& entry = entries[row];
    made.words.emplace_back(entry.word);
    made.counts.push_back(entry.count);
    if (entry.number >= 0) made.rows[static_cast<std::size_t>(entry.number)] = static_cast<Index>(row);
  }
  return made;
}

std::vector<double> kept_shares(std::span<const Offset> counts, double sample, bool by_word2vec) {
  std::vector<double> shares(counts.size(), 1.0);
  if (sample == 0) return shares;
  const double scaled = sample * static_cast<double>(std::accumulate(counts.begin(), counts.end(), Offset{0}));
  for (std::size_t word = 0; word < counts.size(); ++word) {
    const double ratio = scaled / static_cast<double>(counts[word]);
    shares[word] = std::min(std::sqrt(ratio) + (by_word2vec ? ratio : 0.0), 1.0);
  }
  return shares;
}

}  // namespace manyclass
