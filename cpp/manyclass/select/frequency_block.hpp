// m / 16 draws with replacement of a whole cache line of 16 classes, a line with the probability q of its classes.
//
// Importance sampling at the memory traffic of a block: classes stand in the order of their frequency, so that a line's
// classes are about equally frequent, and q is proportional to the sum of frequency ^ power over the line. A line drawn
// c times counts once, with weight c / (n q), n being the number of draws: unbiased, as in frequency.hpp, in whatever
// order the classes stand.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include "manyclass/select/frequency.hpp"

namespace manyclass {

struct FrequencyBlock {
  static constexpr Facts facts{
      .name = "frequency_block",
      .sentence =
          "Draws of whole cache lines of 16 classes, a line in proportion to the powers of its classes' counts.",
      .flags = {flag::label, flag::counts},
      .parameters = {frequency_power},
  };
  using Classes = ClassLines;
  static constexpr bool repeats = true;

  std::shared_ptr<const AliasTable> table;  // of lines
  Index n_classes;
  Index n_draws;
  bool with_label = false;

  static FrequencyBlock make(const SelectArguments& a) {
    return {frequency_table(a, line_floats), a.n_classes, (a.n_negatives - 1) / width + 1, a.with_label};
  }

  std::size_t capacity() const { return static_cast<std::size_t>(n_draws) * line_floats; }
  float label_alpha(Index k) const { return weight(line_of(k)); }
  double inclusion(Index k) const { return -std::expm1(n_draws * std::log1p(-table->probability(line_of(k)))); }

  std::size_t n_random(const ClassLines& classes) const { return classes.size(); }

  ClassLines draw(Rng rng, Index, std::span<const Index> labels, const DrawBuffers& out) const {
    Index* const lines = out.list.data();
    for (Index j = 0; j < n_draws; ++j) lines[j] = table->draw(rng);
    std::sort(lines, lines + n_draws);
    std::size_t n = 0, count = 0;
    for (Index j = 0; j < n_draws; ++n) {
      const Index line = lines[j];
      Index times = 0;
      for (; j < n_draws && lines[j] == line; ++j) ++times;
      const ClassRange run = classes_of(line);
      lines[n] = run.begin;
      std::fill_n(out.times.data() + count, run.size(), static_cast<float>(times));
      std::fill_n(out.alpha.data() + count, run.size(), static_cast<float>(times) * weight(line));
      if (!with_label) leave_out(labels, run.begin, out.alpha.subspan(count, run.size()));
      count += run.size();
    }
    return {{lines, n}, count};
  }

 private:
  static constexpr Index width = static_cast<Index>(line_floats);

  static Index line_of(Index k) { return k / width; }
  ClassRange classes_of(Index line) const { return {line * width, std::min(width, n_classes - line * width)}; }
  float weight(Index line) const { return static_cast<float>(1 / (n_draws * table->probability(line))); }
};

static_assert(Selection<FrequencyBlock>, "see select/draw.hpp");

}  // namespace manyclass
