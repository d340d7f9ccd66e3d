// Counting of co-occurrences, which cooccurrence.hpp defines.
//
// Each thread counts into a hash table of fixed size. A full table is sorted and written to a file of its own. In the
// end the files are merged with what is left in the tables.
#include "manyclass/text/cooccurrence.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <memory>
#include <mutex>
#include <queue>
#include <stdexcept>

#include "manyclass/core/parallel.hpp"

namespace manyclass {

namespace {

struct Entry {
  std::uint64_t pair;  // x in the upper half
  std::uint64_t count;
};

constexpr std::uint64_t no_pair = ~std::uint64_t{0};
constexpr std::size_t smallest_table = 1 << 10;
constexpr std::size_t read_at_once = 1 << 13;  // entries of a file that are read at a time
constexpr std::size_t sentences_at_a_time = 64;
constexpr std::size_t merge_work = 64;  // of an entry, in the unit of poll()

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

File open_file(const std::string& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode));
  if (!file) throw std::runtime_error("the file " + path + " for co-occurrences cannot be opened");
  return file;
}

class PairTable {
 public:
  explicit PairTable(std::size_t capacity) : slots_(capacity, Entry{no_pair, 0}) {}

  void add(std::uint64_t pair, std::uint64_t count) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = mix64(pair) & mask;
    while (slots_[slot].pair != pair && slots_[slot].pair != no_pair) slot = (slot + 1) & mask;
    n_ += slots_[slot].pair == no_pair ? 1 : 0;
    slots_[slot] = {pair, slots_[slot].count + count};
  }

  // Whether `more` new pairs might leave fewer than a quarter of the slots free.
  bool full_after(std::size_t more) const { return n_ + more > slots_.size() / 4 * 3; }

  // The entries sorted by pair, in the table's own memory. The table must be cleared before the next add.
  std::span<const Entry> sorted() {
    std::size_t n = 0;
    for (const Entry& entry : slots_) {
      if (entry.pair != no_pair) slots_[n++] = entry;
    }
    std::sort(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(n),
              [](const Entry& a, const Entry& b) { return a.pair < b.pair; });
    return std::span<const Entry>(slots_).first(n);
  }

  void clear() {
    std::fill(slots_.begin(), slots_.end(), Entry{no_pair, 0});
    n_ = 0;
  }

 private:
  std::vector<Entry> slots_;
  std::size_t n_ = 0;
};

void write_run(std::span<const Entry> entries, const std::string& path) {
  const File file = open_file(path, "wb");
  if (std::fwrite(entries.data(), sizeof(Entry), entries.size(), file.get()) != entries.size() ||
      std::fflush(file.get()) != 0) {
    throw std::runtime_error("the file " + path + " for co-occurrences cannot be written: is the disk full?");
  }
}

// A sorted run of entries. It is in memory, or in a file of which a piece is in memory.
class Run {
 public:
  explicit Run(std::span<const Entry> entries) : piece_(entries) {}
  explicit Run(const std::string& path) : file_(open_file(path, "rb")), buffer_(read_at_once) { refill(); }

  bool done() const { return at_ == piece_.size(); }
  const Entry& front() const { return piece_[at_]; }
  void advance() {
    if (++at_ == piece_.size() && file_) refill();
  }

 private:
  void refill() {
    const std::size_t n = std::fread(buffer_.data(), sizeof(Entry), buffer_.size(), file_.get());
    if (std::ferror(file_.get()) != 0) throw std::runtime_error("a file of co-occurrences cannot be read back");
    piece_ = std::span<const Entry>(buffer_).first(n);
    at_ = 0;
  }

  File file_;
  std::vector<Entry> buffer_;
  std::span<const Entry> piece_;
  std::size_t at_ = 0;
};

Cooccurrences merged(std::vector<Run> runs, Index n_words) {
  Cooccurrences out;
  out.starts.assign(static_cast<std::size_t>(n_words) + 1, 0);
  const auto later = [&](std::size_t a, std::size_t b) { return runs[a].front().pair > runs[b].front().pair; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> next(later);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (!runs[r].done()) next.push(r);
  }
  std::uint64_t last = no_pair;
  while (!next.empty()) {
    const std::size_t r = next.top();
    next.pop();
    poll(merge_work);
    const Entry entry = runs[r].front();
    if (entry.pair == last) {
      out.counts.back() += static_cast<Offset>(entry.count);
    } else {
      out.contexts.push_back(static_cast<Index>(entry.pair & 0xffffffffU));
      out.counts.push_back(static_cast<Offset>(entry.count));
      ++out.starts[static_cast<std::size_t>(entry.pair >> 32) + 1];
      last = entry.pair;
    }
    runs[r].advance();
    if (!runs[r].done()) next.push(r);
  }
  for (std::size_t x = 1; x < out.starts.size(); ++x) out.starts[x] += out.starts[x - 1];
  return out;
}

// How far apart the words of a pair can be.
std::size_t farthest(const SkipGramText& text) {
  Offset longest = 1;
  for (std::size_t s = 0; s < text.n_sentences(); ++s) {
    longest = std::max(longest, text.sentences[s + 1] - text.sentences[s]);
  }
  return std::min(static_cast<std::size_t>(text.window), static_cast<std::size_t>(longest));
}

// Counts the pairs of a sentence. `flush` is called where the table might not have room for those of the next centre.
template <class Flush>
void count_sentence(const SkipGramText& text, std::size_t s, std::uint64_t seed, std::vector<Index>& words,
                    PairTable& table, Flush&& flush) {
  Rng rng({seed, 0}, s);
  const std::size_t n = keep_words(text, s, rng, words);
  const auto reach = static_cast<std::size_t>(text.window);
  for (std::size_t i = 0; i < n; ++i) {
    if (table.full_after(2 * std::min(reach, n))) flush();
    const Window window = window_around(i, reach, n);
    const std::uint64_t row = static_cast<std::uint64_t>(words[i]) << 32;
    for (std::size_t j = window.begin; j < window.end; ++j) {
      if (j == i) continue;
      const std::size_t distance = j > i ? j - i : i - j;
      table.add(row | static_cast<std::uint64_t>(words[j]), text.shrink ? reach - distance + 1 : 1);
    }
  }
}

}  // namespace

Cooccurrences count_cooccurrences(const SkipGramText& text, Index n_words, const CooccurrenceSettings& settings) {
  const auto n_threads = static_cast<std::size_t>(settings.n_threads);
  const std::size_t least = std::bit_ceil(8 * farthest(text));
  const std::size_t slots = std::max(settings.memory / (n_threads * sizeof(Entry)), std::max(smallest_table, least));
  std::vector<PairTable> tables;
  tables.reserve(n_threads);
  for (std::size_t t = 0; t < n_threads; ++t) tables.emplace_back(std::bit_floor(slots));

  std::vector<std::string> files;
  std::mutex files_mutex;
  std::atomic<std::size_t> next{0};
  parallel_for(settings.n_threads, n_threads, [&](std::size_t rank) {
    std::vector<Index> words;
    const auto flush = [&] {
      std::string path;
      {
        const std::lock_guard lock(files_mutex);
        files.push_back(settings.folder + "/pairs-" + std::to_string(files.size()));
        path = files.back();
      }
      write_run(tables[rank].sorted(), path);
      tables[rank].clear();
    };
    for (std::size_t s = next.fetch_add(sentences_at_a_time); s < text.n_sentences();
         s = next.fetch_add(sentences_at_a_time)) {
      poll();
      const std::size_t end = std::min(s + sentences_at_a_time, text.n_sentences());
      for (std::size_t i = s; i < end; ++i) count_sentence(text, i, settings.seed, words, tables[rank], flush);
    }
  });

  std::vector<Run> runs;
  runs.reserve(files.size() + n_threads);
  for (const std::string& path : files) runs.emplace_back(path);
  std::vector<std::span<const Entry>> rest(n_threads);
  parallel_for(settings.n_threads, n_threads, [&](std::size_t rank) { rest[rank] = tables[rank].sorted(); });
  for (const std::span<const Entry> entries : rest) runs.emplace_back(entries);
  Cooccurrences out = merged(std::move(runs), n_words);
  out.n_spilled = files.size();
  return out;
}

}  // namespace manyclass
