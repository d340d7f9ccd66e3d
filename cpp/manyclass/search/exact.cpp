// Exact scores: see the header.
#include "manyclass/search/exact.hpp"

#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

void exact_scores(const RowsView& rows, DenseRow q, Isa isa, std::span<Scored> some) {
  constexpr std::size_t ahead = 8;        // rows on their way from memory
  constexpr std::size_t line = 16;        // floats
  constexpr std::size_t most_lines = 16;  // after which the processor has seen that a row is a stream
  const std::size_t lines = std::min((rows.n_features + line - 1) / line, most_lines);
  const auto fetch = [&](std::size_t i) {
    const float* row = rows[some[i].id].data();
    for (std::size_t l = 0; l < lines; ++l) __builtin_prefetch(row + l * line);
  };
  for (std::size_t i = 0; i < std::min(ahead, some.size()); ++i) fetch(i);
  run_with(isa, [&] {
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (i + ahead < some.size()) fetch(i + ahead);
      const DenseRow row = rows[some[i].id];
      some[i].score = ClassRows<const float>(row, static_cast<Index>(rows.n_features)).score(q, 0);
    }
  });
}

}  // namespace manyclass
