// All classes of one point by an 8-bit copy: see the header.
#include "manyclass/search/byte_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "manyclass/math/elementary.hpp"
#include "manyclass/search/best.hpp"
#include "manyclass/search/scan.hpp"
#include "manyclass/search/spherical_kmeans.hpp"

namespace manyclass {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// A query and what its code leaves, as two queries of a scan.
struct CodedQuery {
  QueryCodes codes;
  float length;    // |q| and the error of its code, which bounds the code's length
  float slack;     // to be multiplied by |w|
  float rounding;  // of sums and products in single precision, to be multiplied by |b|
};

std::optional<CodedQuery> coded(DenseRow q, Isa isa) {
  constexpr double round_up = 1 + 0x1p-20;
  CodedQuery query{QueryCodes(2, q.size()), 0, 0, 0};
  if (!query.codes.encode(0, q, isa)) return std::nullopt;
  const QueryCode& first = query.codes[0];
  std::vector<float> left(q.begin(), q.end());
  for (std::size_t j = 0; j < left.size(); ++j) left[j] -= first.scale * static_cast<float>(first.bytes[j]);
  if (!query.codes.encode(1, left, isa)) return std::nullopt;
  const double length = norm(q, isa);
  // As in codes.hpp, and as much again for what is left, whose difference is rounded, and for the sum of both codes.
  const double rounding = 2 * (static_cast<double>(q.size()) + 64) * 0x1p-24;
  const double slack = static_cast<double>(query.codes[1].slack) + rounding * length;
  query.length = static_cast<float>((length + slack) * round_up);
  query.slack = static_cast<float>(slack * round_up);
  query.rounding = static_cast<float>(rounding * round_up);
  return query;
}

// What codes say of all rows, padded to whole groups; the best are offered to `best` with their bounds.
inline void scan_all(const CodeBlock& block, std::span<const float> intercepts, const CodedQuery& query, Isa isa,
                     Best& best, std::span<float> middles) {
  const auto& kernels = scan_kernels(isa).by_shape[1];
  const auto queries = query.codes.some(0, 2);
  const float t = queries[0].scale, of_rest = queries[1].scale;
  alignas(64) std::array<std::int32_t, 2 * most_groups * group_rows> sums;
  for (std::size_t first = 0; first < block.n_groups(); first += most_groups) {
    const std::size_t n = std::min(most_groups, block.n_groups() - first);
    kernels[n - 1](block.group(first), block.stride(), block.chunks(), queries.data(), sums.data());
    for (std::size_t g = 0; g < n; ++g) {
      const GroupTail& tail = block.tail(first + g);
      const std::int32_t* coarse = sums.data() + g * group_rows;
      const std::int32_t* fine = coarse + n * group_rows;
      const float* b = intercepts.data() + (first + g) * group_rows;
      GroupBounds bounds;
      int reach = 0;
      for (std::size_t r = 0; r < group_rows; ++r) {
        const float product = t * static_cast<float>(coarse[r]) + of_rest * static_cast<float>(fine[r]);
        const float middle = tail.scale[r] * product + b[r];
        const float radius = query.length * tail.error[r] + query.slack * tail.norm[r] +
                             query.rounding * std::fabs(b[r]) + underflow_slack;
        bounds.middle[r] = middle;
        bounds.radius[r] = radius;
        reach += middle + radius >= best.bar() ? 1 : 0;
      }
      std::ranges::copy(bounds.middle, middles.begin() + static_cast<std::ptrdiff_t>((first + g) * group_rows));
      if (reach > 0) best.offer(bounds, tail.ids);
    }
  }
}

// The normaliser of scores whose standard deviations are `errors` times a factor, and of others that are known, best first.
inline Normalizer normalizer(std::span<const float> scores, std::span<const float> errors, double factor,
                             std::span<const Scored> known) {
  constexpr std::size_t lanes = 16;
  float lane_top[lanes];
  std::fill_n(lane_top, lanes, known.front().score);
  const std::size_t n_full = scores.size() / lanes * lanes;
  for (std::size_t k = 0; k < n_full; k += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) lane_top[l] = scores[k + l] > lane_top[l] ? scores[k + l] : lane_top[l];
  }
  float top = *std::max_element(lane_top, lane_top + lanes);
  for (std::size_t k = n_full; k < scores.size(); ++k) top = std::max(top, scores[k]);
  double sums[lanes] = {}, squares[lanes] = {};
  const auto add = [&](std::size_t l, std::size_t k) {
    const float term = vec::exp(scores[k] - top), deviation = term * errors[k];
    sums[l] += static_cast<double>(term);
    squares[l] += static_cast<double>(deviation) * static_cast<double>(deviation);
  };
  for (std::size_t k = 0; k < n_full; k += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) add(l, k + l);
  }
  for (std::size_t k = n_full; k < scores.size(); ++k) add(0, k);
  double sum = 0, square = 0;
  for (std::size_t l = 0; l < lanes; ++l) {
    sum += sums[l];
    square += squares[l];
  }
  for (const Scored& row : known) sum += std::exp(static_cast<double>(row.score) - static_cast<double>(top));
  const double above = static_cast<double>(top) - static_cast<double>(known.front().score);
  return {above + std::log(sum), factor * std::sqrt(square) / sum};
}

}  // namespace

ByteRows::ByteRows(const RowsView& rows, std::size_t n_rows, std::size_t n_coded, bool has_intercept, int n_threads,
                   Isa isa)
    : rows_(rows), n_coded_(n_coded), block_(n_coded) {
  check_rows(rows, n_rows, n_threads, isa);
  block_.reserve(n_rows);
  intercepts_.resize((n_rows + group_rows - 1) / group_rows * group_rows);
  errors_.resize(n_rows);
  for (std::size_t k = 0; k < n_rows; ++k) {
    const DenseRow row = rows[static_cast<Index>(k)];
    block_.append(static_cast<Index>(k), row.first(n_coded), isa);
    if (has_intercept) intercepts_[k] = row[n_coded];
    errors_[k] = block_.tail(k / group_rows).error[k % group_rows];
  }
}

std::optional<Normalizer> ByteRows::best(DenseRow q, Isa isa, std::span<Index> ids, std::span<float> scores) const {
  const auto query = coded(q.first(n_coded_), isa);
  if (!query) return std::nullopt;
  thread_local std::vector<float> middles;  // a fresh piece of memory would be fetched from the system each time
  middles.resize(intercepts_.size());
  thread_local Best best;
  best.start(ids.size(), minus_infinity, {});
  run_with(isa, [&] { scan_all(block_, intercepts_, *query, isa, best, middles); });
  const std::span<const Scored> found = best.finish(rows_, q, isa);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ids[i] = found[i].id;
    scores[i] = found[i].score;
    middles[static_cast<std::size_t>(found[i].id)] = minus_infinity;  // it is counted as it is
  }
  Normalizer normal{};
  const double spread = static_cast<double>(query->length) / std::sqrt(static_cast<double>(n_coded_));
  run_with(isa, [&] { normal = normalizer(std::span(middles).first(n_rows()), errors_, spread, found); });
  return normal;
}

}  // namespace manyclass
