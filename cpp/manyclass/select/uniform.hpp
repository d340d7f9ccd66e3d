// m distinct wrong classes, every subset equally likely.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct Uniform {
  static constexpr Facts facts{
      .name = "uniform",
      .sentence = "Distinct wrong classes, every set of them equally likely.",
      .flags = {flag::label},
  };
  using Classes = ClassList;
  static constexpr bool repeats = false;

  Index n_classes;
  Index size;  // m, in [1, K]; a point with few wrong classes sees them all
  bool with_label = false;

  static Uniform make(const SelectArguments& a) {
    return {a.n_classes, a.at_most(a.with_label ? a.n_classes : std::max(1, a.n_classes - 1)), a.with_label};
  }

  Index n_candidates(std::size_t n_labels = 1) const {
    return with_label ? n_classes : n_classes - static_cast<Index>(n_labels);
  }
  std::size_t capacity() const { return static_cast<std::size_t>(size); }
  float label_alpha(Index) const { return static_cast<float>(n_candidates()) / static_cast<float>(size); }
  double inclusion(Index) const { return static_cast<double>(size) / n_candidates(); }
  double inclusion_of_all(Index) const { return static_cast<double>(size) / n_classes; }  // where no class is a label

  std::size_t n_random(ClassList classes) const { return classes.size(); }

  ClassList draw(Rng rng, Index, std::span<const Index> labels, const DrawBuffers& out) const {
    const Index n = n_candidates(labels.size()), m = std::min(size, n);
    const auto count = static_cast<std::size_t>(m);
    const std::span<Index> drawn = out.list.first(count);
    if (marks(n, m)) {
      draw_marked(rng, n, drawn);
    } else {
      draw_sorted(rng, n, drawn);
    }
    if (!with_label) {
      for (const Index y : labels) {
        for (Index* k = first_not_below(drawn.data(), drawn.data() + m, y); k != drawn.data() + m; ++k)
          ++*k;  // skip it
      }
    }
    std::fill_n(out.alpha.data(), count, static_cast<float>(n) / static_cast<float>(m));
    return drawn;
  }

 private:
  using Word = std::uint64_t;
  static constexpr Index word_bits = 64;
  static constexpr Index most_marked = 1 << 17;  // candidates: 16 kB of the stack

  // Whether candidates are marked by bits, whose words are cleared and looked through, in less time than the draws are
  // kept sorted: measured with n of 64 to 131,072 and m of 4 to 256 (bench/decisions.md).
  static bool marks(Index n, Index m) {
    return n <= most_marked && m >= 8 && n / word_bits <= static_cast<std::int64_t>(m) * m / 2;
  }

  // Draws below n, ascending: a bit for each candidate says "it is there".
  static void draw_marked(Rng& rng, Index n, std::span<Index> drawn) {
    std::array<Word, most_marked / word_bits> words;
    const auto n_words = static_cast<std::size_t>((n + word_bits - 1) / word_bits);
    std::fill_n(words.begin(), n_words, Word{0});
    const auto word_of = [&](Index k) -> Word& { return words[static_cast<std::size_t>(k / word_bits)]; };
    const auto bit_of = [](Index k) { return Word{1} << (k % word_bits); };
    draw_distinct(
        rng, n, static_cast<Index>(drawn.size()), [&](Index k) { return (word_of(k) & bit_of(k)) != 0; },
        [&](Index k) { word_of(k) |= bit_of(k); });
    auto next = drawn.begin();
    for (std::size_t w = 0; w < n_words; ++w) {
      const auto first = static_cast<Index>(w) * word_bits;
      for (Word left = words[w]; left != 0; left &= left - 1) *next++ = first + std::countr_zero(left);
    }
  }

  // The same numbers. The draws are kept sorted, so that "is it there?" is a binary search: O(m log m) comparisons and,
  // for the insertions, m^2/4 moves of neighbouring words.
  static void draw_sorted(Rng& rng, Index n, std::span<Index> drawn) {
    Index* const begin = drawn.data();
    Index* end = begin;
    Index* at = begin;
    draw_distinct(
        rng, n, static_cast<Index>(drawn.size()),
        [&](Index k) {
          at = first_not_below(begin, end, k);
          const bool there = at != end && *at == k;
          if (there) at = end;
          return there;
        },
        [&](Index k) {
          std::move_backward(at, end, end + 1);
          *at = k;
          ++end;
        });
  }
};

static_assert(Selection<Uniform>, "see select/draw.hpp");

}  // namespace manyclass
