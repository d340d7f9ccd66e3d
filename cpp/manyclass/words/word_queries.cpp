// See word_queries.hpp.
#include "manyclass/words/word_queries.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "manyclass/weights/coded_lines.hpp"

namespace manyclass {

namespace {

constexpr std::size_t lanes = 16;

// sum_j f(w_j, j) over the numbers of a row, in lanes that the compiler may vectorise.
template <class Sum, class Value, class F>
Sum sum_over(const Value* row, std::size_t n, const F& f) {
  Sum sums[lanes] = {};
  std::size_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += f(value_of(row[j + l]), j + l);
  }
  for (std::size_t l = 0; j < n; ++j, ++l) sums[l] += f(value_of(row[j]), j);
  return std::accumulate(std::begin(sums), std::end(sums), Sum{0});
}

// Calls f(row, values, scale) for each row of the storage.
template <class F>
void for_rows(const WordTable& table, Isa isa, const F& f) {
  const std::size_t n = checked_rows(table);
  std::visit(
      [&](const auto& codes) {
        run_with(isa, [&] {
          for (std::size_t i = 0; i < n; ++i) {
            f(i, codes.values.data() + i * table.width, codes.scales.empty() ? 1.0F : codes.scales[i]);
          }
        });
      },
      table.codes);
}

template <class Value>
float norm_of(const Value* row, std::size_t width, float scale) {
  const double squares = sum_over<double>(row, width, [scale](float w, std::size_t) {
    const auto scaled = static_cast<double>(w * scale);
    return scaled * scaled;
  });
  const double norm = std::min(std::sqrt(squares), static_cast<double>(std::numeric_limits<float>::max()));
  return norm == 0 ? 1.0F : static_cast<float>(norm);
}

}  // namespace

std::size_t checked_rows(const WordTable& table) {
  return std::visit(
      [&](const auto& codes) {
        const std::size_t n = table.width == 0 ? 0 : codes.values.size() / table.width;
        if (n * table.width != codes.values.size() || (!codes.scales.empty() && codes.scales.size() != n)) {
          throw std::invalid_argument("the table has no whole rows, or not a scale for each");
        }
        return n;
      },
      table.codes);
}

std::vector<float> row_norms(const WordTable& table, Isa isa) {
  std::vector<float> norms(checked_rows(table));
  for_rows(table, isa,
           [&](std::size_t i, const auto* row, float scale) { norms[i] = norm_of(row, table.width, scale); });
  return norms;
}

std::vector<float> cosines(const WordTable& table, std::span<const double> vector, Isa isa) {
  if (vector.size() != table.width) throw std::invalid_argument("the vector does not fit the table");
  const double squares = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0);
  const double norm = squares == 0 ? 1.0 : std::sqrt(squares);
  std::vector<float> unit(vector.size()), found(checked_rows(table));
  std::ranges::transform(vector, unit.begin(), [norm](double v) { return static_cast<float>(v / norm); });
  for_rows(table, isa, [&](std::size_t i, const auto* row, float scale) {
    const float product = sum_over<float>(row, table.width, [&](float w, std::size_t j) { return w * unit[j]; });
    found[i] = product * scale / norm_of(row, table.width, scale);
  });
  return found;
}

std::vector<Offset> nearest_words(std::span<const float> cosines, std::size_t k, std::span<const Offset> left_out) {
  std::vector<bool> is_out(cosines.size(), false);
  for (const Offset row : left_out) {
    if (row >= 0 && static_cast<std::size_t>(row) < cosines.size()) is_out[static_cast<std::size_t>(row)] = true;
  }
  std::vector<Offset> rows;
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    if (!is_out[i]) rows.push_back(static_cast<Offset>(i));
  }
  const auto at = [&](Offset row) { return cosines[static_cast<std::size_t>(row)]; };
  // NaN, of a training that diverged, is the last.
  const auto better = [&](Offset a, Offset b) {
    const bool is_nan = std::isnan(at(a)), other = std::isnan(at(b));
    if (is_nan || other || at(a) == at(b)) return is_nan == other ? a < b : other;
    return at(a) > at(b);
  };
  k = std::min(k, rows.size());
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(k), rows.end(), better);
  rows.resize(k);
  return rows;
}

}  // namespace manyclass
