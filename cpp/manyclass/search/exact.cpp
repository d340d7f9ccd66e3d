// Exact scores: see the header.
#include "manyclass/search/exact.hpp"

#include <vector>

#include "manyclass/weights/class_rows.hpp"
#include "manyclass/weights/coded_lines.hpp"

namespace manyclass {

void read_row(const RowsView& rows, Index k, Isa isa, std::span<float> row) {
  if (rows.halves == nullptr) return std::ranges::copy(rows[k], row.begin()), void();
  read_floats(rows.halves + static_cast<std::size_t>(k) * rows.n_features, isa, row);
}

void exact_scores(const RowsView& rows, DenseRow q, Isa isa, std::span<Scored> some) {
  constexpr std::size_t ahead = 8;        // rows on their way from memory
  constexpr std::size_t line = 64;        // bytes
  constexpr std::size_t most_lines = 16;  // after which the processor has seen that a row is a stream
  const bool are_halves = rows.halves != nullptr;
  const std::size_t bytes = rows.n_features * (are_halves ? sizeof(std::uint16_t) : sizeof(float));
  const auto* data =
      are_halves ? reinterpret_cast<const std::byte*>(rows.halves) : reinterpret_cast<const std::byte*>(rows.data);
  const std::size_t lines = std::min((bytes + line - 1) / line, most_lines);
  const auto fetch = [&](std::size_t i) {
    const std::byte* row = data + static_cast<std::size_t>(some[i].id) * bytes;
    for (std::size_t l = 0; l < lines; ++l) __builtin_prefetch(row + l * line);
  };
  for (std::size_t i = 0; i < std::min(ahead, some.size()); ++i) fetch(i);
  std::vector<float> widened(are_halves ? rows.n_features : 0);
  run_with(isa, [&](Isa known) {
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (i + ahead < some.size()) fetch(i + ahead);
      if (are_halves) read_row(rows, some[i].id, known, widened);
      const DenseRow row = are_halves ? DenseRow(widened) : rows[some[i].id];
      some[i].score = ClassRows<const float>(row, static_cast<Index>(rows.n_features)).score(q, 0);
    }
  });
}

}  // namespace manyclass
