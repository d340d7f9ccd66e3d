// See shard_merges.hpp.
#include "manyclass/weights/shard_merges.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace manyclass {

namespace {

void refuse_unless(bool fits) {
  if (!fits) throw std::invalid_argument("the changes of shards do not fit the weights");
}

double counted(double a, bool inverse) {
  const double gone = -std::expm1(-a);
  return inverse ? gone / a : a / gone;
}

}  // namespace

void multiply_by_ways(std::span<float> matrix, const Ways& ways, bool inverse) {
  const std::size_t n_rows = ways.rates.size();
  const Curvatures& h = ways.curvatures;
  if (matrix.empty()) return;
  refuse_unless(n_rows > 0 && matrix.size() % n_rows == 0 && ways.least > 0);
  const std::size_t width = matrix.size() / n_rows;
  refuse_unless(ways.n_moved.empty() || ways.n_moved.size() == matrix.size());
  if (h.indptr.empty()) {
    refuse_unless(h.values.size() == matrix.size());
  } else {
    refuse_unless(h.indptr.size() == n_rows + 1 && h.indptr.front() >= 0 && std::ranges::is_sorted(h.indptr) &&
                  h.indptr.back() <= static_cast<Offset>(std::min(h.indices.size(), h.values.size())));
    refuse_unless(std::ranges::all_of(
        h.indices, [&](Index column) { return column >= 0 && static_cast<std::size_t>(column) < width; }));
  }
  // Most weights of sparse rows have no curvature: these two stand for them.
  const double still = counted(ways.least, inverse), moved = counted(ways.least + ways.moved_least, inverse);
  std::vector<double> way(width);
  for (std::size_t r = 0; r < n_rows; ++r) {
    const std::span<float> row = matrix.subspan(r * width, width);
    std::ranges::fill(way, 0.0);
    const double scale = ways.coupling * ways.rates[r];
    if (h.indptr.empty()) {
      for (std::size_t c = 0; c < width; ++c) way[c] = scale * h.values[r * width + c];
    } else {
      for (auto i = static_cast<std::size_t>(h.indptr[r]); i < static_cast<std::size_t>(h.indptr[r + 1]); ++i) {
        way[static_cast<std::size_t>(h.indices[i])] += scale * h.values[i];
      }
    }
    for (std::size_t c = 0; c < width; ++c) {
      if (row[c] == 0) continue;
      const double n = ways.n_moved.empty() ? 1 : static_cast<double>(ways.n_moved[r * width + c]);
      const bool is_known = way[c] == 0 && (n == 0 || n == 1);
      const double factor =
          is_known ? (n == 0 ? still : moved) : counted(ways.least + ways.moved_least * n + way[c], inverse);
      row[c] = static_cast<float>(static_cast<double>(row[c]) * factor);
    }
  }
}

void add_changes(const RowChanges& changes, std::span<float> total, std::span<float> n_moved, std::size_t width) {
  const std::size_t n = changes.rows.size();
  refuse_unless(width > 0 && changes.matrix.size() == n * width && changes.shares.size() == n &&
                total.size() % width == 0 && (n_moved.empty() || n_moved.size() == total.size()));
  for (std::size_t i = 0; i < n; ++i) {
    const Index row = changes.rows[i];
    refuse_unless(row >= 0 && static_cast<std::size_t>(row) < total.size() / width);
    const std::size_t first = static_cast<std::size_t>(row) * width;
    for (std::size_t c = 0; c < width; ++c) {
      const float change = changes.matrix[i * width + c];
      total[first + c] += changes.shares[i] * change;
      if (!n_moved.empty() && change != 0) n_moved[first + c] += changes.shares[i];
    }
  }
}

double coupling_of(std::size_t n_shards, double together, double furthest) {
  constexpr std::size_t n_points = 2000;
  constexpr double least = 1e-6, most = 50;  // of a / n
  constexpr int n_halvings = 40;
  const auto n = static_cast<double>(n_shards);
  const auto goes_too_far = [&](double coupling) {
    for (std::size_t i = 0; i < n_points; ++i) {
      const double a = least * std::pow(most / least, static_cast<double>(i) / (n_points - 1));
      if (std::expm1(-together / coupling * a) * std::expm1(-n * a) / -std::expm1(-a) > furthest) return true;
    }
    return false;
  };
  double low = 1, high = std::max(1.0, together);
  for (int i = 0; i < n_halvings; ++i) {
    const double middle = (low + high) / 2;
    (goes_too_far(middle) ? low : high) = middle;
  }
  constexpr double rounding = 1e-6;
  return high > 1 + rounding ? high : 1;
}

}  // namespace manyclass
