// All classes of one point by an 8-bit copy: see the header.
#include "manyclass/search/byte_rows.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/vectors.hpp"
#include "manyclass/math/elementary.hpp"
#include "manyclass/search/best.hpp"
#include "manyclass/search/scan.hpp"
#include "manyclass/search/spherical_kmeans.hpp"

namespace manyclass {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Bounds of a query's errors.
struct Errors {
  float length = 0;    // |q| and the error of its code, which bounds the code's length
  float slack = 0;     // to be multiplied by |w|
  float rounding = 0;  // of sums and products in single precision, to be multiplied by |b|
};

// Codes of some queries and their bounds.
template <std::size_t Codes>
struct CodedQueries {
  CodedQueries(std::size_t n, std::size_t n_features) : codes(n, n_features, Codes), errors(n) {}

  // False where q is not finite or too large.
  bool encode(std::size_t i, DenseRow q, Isa isa) {
    constexpr double round_up = 1 + 0x1p-20;
    if (!codes.encode(i, q, isa)) return false;
    const double length = norm(q, isa);
    // As in codes.hpp, and as much again for what is left, whose difference is rounded, and for the sum of both codes.
    const double rounding = 2 * (static_cast<double>(q.size()) + 64) * 0x1p-24;
    const double slack = static_cast<double>(codes.some(i, 1).back().slack) + rounding * length;
    errors[i] = {static_cast<float>((length + slack) * round_up), static_cast<float>(slack * round_up),
                 static_cast<float>(rounding * round_up)};
    return true;
  }

  QueryCodes codes;
  std::vector<Errors> errors;
};

// Scores of some groups of rows as their codes say; -infinity where there is no row, or one that is not to be counted.
using Middles = std::array<float, most_groups * group_rows>;

// Sums over scores z that arrive in blocks, of e^z, of the squares of e^z error and of e^z norm, less the largest z so
// far. Which rows share a lane does not depend on the queries beside, so that neither do the bits of the sums.
struct WeighedSums {
  float base = minus_infinity;
  double sum = 0, square = 0, length = 0;

  // `Bytes` are those of a register. A plain loop over columns of sixteen stays scalar.
  template <std::size_t Bytes>
  void add(const Middles& z, bool above, const float* errors, const float* norms) {
    constexpr std::size_t n_lanes = Bytes / sizeof(float);
    using Lanes = Vector<float, Bytes>;
    const auto load = [](Lanes& to, const float* from) { std::memcpy(&to, from, Bytes); };
    if (above) {
      float top = base;  // z may hold NaN
      for (const float some : z) top = some > top ? some : top;
      if (top > base) rebase(top);
    }
    if (base == minus_infinity) return;
    // No term is a number below the normal ones, whose arithmetic is slow; nor, where z is NaN, a NaN; no square
    // either.
    constexpr float lowest = -87, smallest = 1e-18F;
    alignas(64) Middles terms;
    for (std::size_t k = 0; k < z.size(); ++k) {
      const float below = z[k] - base;
      terms[k] = below > lowest ? vec::exp(below) : 0.0F;
    }
    for (std::size_t l = 0; l < group_rows; l += n_lanes) {
      Lanes of_terms, of_squared, of_lengths, some, other;
      load(of_terms, sums_.data() + l);
      load(of_squared, squares_.data() + l);
      load(of_lengths, lengths_.data() + l);
      for (std::size_t k = l; k < z.size(); k += group_rows) {
        load(some, terms.data() + k);
        of_terms += some;
        load(other, norms + k);
        of_lengths += some * other;
        load(other, errors + k);
        other *= some;
        other = other > smallest ? other : Lanes{};
        of_squared += other * other;
      }
      std::memcpy(sums_.data() + l, &of_terms, Bytes);
      std::memcpy(squares_.data() + l, &of_squared, Bytes);
      std::memcpy(lengths_.data() + l, &of_lengths, Bytes);
    }
  }

  // To be called once a few dozen blocks have come, whose sums are floats, and at the end.
  void add_up_blocks() {
    for (const float some : std::exchange(sums_, {})) sum += static_cast<double>(some);
    for (const float some : std::exchange(squares_, {})) square += static_cast<double>(some);
    for (const float some : std::exchange(lengths_, {})) length += static_cast<double>(some);
  }

 private:
  void rebase(float next) {
    add_up_blocks();
    const double factor = std::exp(static_cast<double>(base) - static_cast<double>(next));
    sum *= factor;
    square *= factor * factor;
    length *= factor;
    base = next;
  }

  std::array<float, group_rows> sums_{}, squares_{}, lengths_{};
};

// What is known of a query while rows pass.
struct Candidates {
  Best best;
  WeighedSums others;            // rows that never reached the bar
  std::vector<Scored> reaching;  // rows that did, with the scores that their codes say
};

// What a pass over the rows reads beside their codes.
struct OfRows {
  const CodeBlock& block;
  const float* intercepts;
  const float* errors;
  const float* norms;
};

// Of the rows of some groups, bounds of radii that hold for several queries, to be multiplied by the length of each: by
// one product instead of four they leave out the groups of which no row reaches the bar.
struct Radii {
  // The largest of `errors` for their lengths are those of all.
  Radii(const OfRows& rows, std::size_t first, std::size_t n, std::span<const Errors> errors) {
    constexpr float round_up = 1 + 0x1p-18F;
    float slack = 0, rounding = 0;
    for (const Errors& one : errors) {
      if (one.length == 0) continue;
      slack = std::max(slack, one.slack / one.length);
      rounding = std::max(rounding, one.rounding / one.length);
    }
    for (std::size_t g = 0; g < n; ++g) {
      const std::size_t row = (first + g) * group_rows;
      for (std::size_t r = 0; r < group_rows; ++r) {
        of_row[g * group_rows + r] =
            (rows.errors[row + r] + slack * rows.norms[row + r] + rounding * std::fabs(rows.intercepts[row + r])) *
            round_up;
      }
    }
  }
  alignas(64) Middles of_row;
};

// Looks at n groups from number `first` on, whose products with the codes of a query stand `apart` from each other.
template <std::size_t Codes, bool weighs, std::size_t Bytes>
inline void look(const OfRows& rows, std::size_t first, std::size_t n, const Radii& radii, const std::int32_t* sums,
                 std::size_t apart, const QueryCode* codes, const Errors& bounds, Candidates& candidates) {
  alignas(64) Middles middles;
  if (weighs && n < most_groups) middles.fill(minus_infinity);
  const float base = candidates.others.base;
  int above = 0;
  for (std::size_t g = 0; g < n; ++g) {
    const GroupTail& tail = rows.block.tail(first + g);
    const std::int32_t* coarse = sums + g * group_rows;
    const std::size_t row = (first + g) * group_rows;
    const float* b = rows.intercepts + row;
    float* const weighed = middles.data() + g * group_rows;
    const float bar = candidates.best.bar(), t = codes[0].scale, of_rest = codes[Codes - 1].scale;
    const float* const radius = radii.of_row.data() + g * group_rows;
    int reach = 0;
    for (std::size_t r = 0; r < group_rows; ++r) {
      float product = t * static_cast<float>(coarse[r]);
      if constexpr (Codes == 2) product += of_rest * static_cast<float>(coarse[apart + r]);
      const float middle = widened(tail.scale[r]) * product + b[r];
      weighed[r] = middle;
      reach += middle + (bounds.length * radius[r] + underflow_slack) >= bar ? 1 : 0;
      if constexpr (weighs) above += middle > base ? 1 : 0;
    }
    if (reach == 0) continue;
    GroupBounds of_group;
    for (std::size_t r = 0; r < group_rows; ++r) {
      of_group.middle[r] = weighed[r];
      of_group.radius[r] = bounds.length * rows.errors[row + r] + bounds.slack * rows.norms[row + r] +
                           bounds.rounding * std::fabs(b[r]) + underflow_slack;
    }
    for (std::size_t r = 0; r < group_rows && weighs; ++r) {
      if (!(of_group.middle[r] + of_group.radius[r] >= bar)) continue;
      candidates.reaching.push_back({of_group.middle[r], tail.ids[r]});
      weighed[r] = minus_infinity;
    }
    candidates.best.offer(of_group, tail.ids);
  }
  const std::size_t row = first * group_rows;
  if constexpr (weighs) candidates.others.add<Bytes>(middles, above > 0, rows.errors + row, rows.norms + row);
}

// What makes standard deviations of scores of the errors and the norms of rows.
struct Spreads {
  double own;     // times error(w): of one row, independent of others
  double shared;  // times |w|: of the query's code, by which the scores of all rows err together
};

// The normaliser of the rows that candidates have met, of which some are known, best first. Errors that rows share add
// up at most.
Normalizer normalizer(const Candidates& candidates, const OfRows& rows, const Spreads& spreads,
                      std::span<const Scored> known) {
  std::vector<Index> counted(known.size());
  std::ranges::transform(known, counted.begin(), &Scored::id);
  std::ranges::sort(counted);
  const auto is_known = [&](const Scored& row) { return std::ranges::binary_search(counted, row.id); };
  float top = std::max(candidates.others.base, known.front().score);
  for (const Scored& row : candidates.reaching) top = is_known(row) ? top : std::max(top, row.score);
  const auto term = [top](float z) { return std::exp(static_cast<double>(z) - static_cast<double>(top)); };
  const WeighedSums& others = candidates.others;
  const double of_others = term(others.base);
  double sum = others.sum * of_others, square = others.square * of_others * of_others,
         length = others.length * of_others;
  for (const Scored& row : candidates.reaching) {
    if (is_known(row)) continue;
    const auto at = static_cast<std::size_t>(row.id);
    const double weight = term(row.score), deviation = weight * static_cast<double>(rows.errors[at]);
    sum += weight;
    square += deviation * deviation;
    length += weight * static_cast<double>(rows.norms[at]);
  }
  for (const Scored& row : known) sum += term(row.score);
  const double above = static_cast<double>(top) - static_cast<double>(known.front().score);
  return {above + std::log(sum), std::hypot(spreads.own * std::sqrt(square), spreads.shared * length) / sum};
}

// Calls f(first, n) for pieces of [begin, end) of at most `step`.
template <class F>
void for_pieces(std::size_t begin, std::size_t end, std::size_t step, const F& f) {
  for (std::size_t first = begin; first < end; first += step) f(first, std::min(step, end - first));
}

}  // namespace

ByteRows::ByteRows(const RowsView& rows, std::size_t n_rows, std::size_t n_coded, bool has_intercept, int n_threads,
                   Isa isa)
    : rows_(rows), n_coded_(n_coded), block_(Coding{n_coded}) {
  check_rows(rows, n_rows, n_threads, isa);
  block_.reserve(n_rows);
  intercepts_.resize((n_rows + group_rows - 1) / group_rows * group_rows);
  errors_.resize(intercepts_.size() + most_groups * group_rows);
  norms_.resize(errors_.size());
  for (std::size_t k = 0; k < n_rows; ++k) {
    const DenseRow row = rows[static_cast<Index>(k)];
    block_.append(static_cast<Index>(k), row.first(n_coded), isa);
    if (has_intercept) intercepts_[k] = row[n_coded];
    errors_[k] = widened(block_.errors(k / group_rows)->error[k % group_rows]);
    norms_[k] = widened(block_.tail(k / group_rows).norm[k % group_rows]);
  }
}

template <std::size_t Codes, bool weighs>
bool ByteRows::best_of(const DenseView& queries, std::size_t k, Isa isa, std::span<Index> ids, std::span<float> scores,
                       std::span<Normalizer> normalizers) const {
  // Groups that stay in the second-level cache (of 1 MB) while all queries pass, and queries whose codes stay in the
  // nearest one (of 32 kB) while the groups pass, four at a time.
  constexpr std::size_t cached_bytes = std::size_t{1} << 19, near_bytes = std::size_t{1} << 13;
  constexpr std::size_t at_once = most_queries / Codes;
  const auto n = static_cast<std::size_t>(queries.n_rows());
  const std::size_t cached = std::max(cached_bytes / block_.stride() / most_groups, std::size_t{1}) * most_groups;
  const std::size_t near = std::max(near_bytes / (Codes * n_coded_) / at_once, std::size_t{1}) * at_once;
  const OfRows rows{block_, intercepts_.data(), errors_.data(), norms_.data()};
  CodedQueries<Codes> coded(n, n_coded_);
  std::vector<Candidates> candidates(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (!coded.encode(i, queries.row(static_cast<Index>(i)).first(n_coded_), isa)) return false;
    candidates[i].best.start(k, minus_infinity, {});
  }
  const auto& kernels = scan_kernels(isa, block_.coding().bits).by_shape;
  alignas(64) std::array<std::int32_t, most_queries * most_groups * group_rows> sums;
  const auto pass = [&]<std::size_t Bytes>(std::size_t group, std::size_t n_groups, const Radii& radii,
                                           std::size_t query, std::size_t n_queries) {
    kernels[n_queries * Codes - 1][n_groups - 1](block_.group(group), block_.stride(), block_.chunks(),
                                                 coded.codes.some(query, n_queries).data(), sums.data());
    const std::size_t apart = n_groups * group_rows;
    for (std::size_t i = 0; i < n_queries; ++i) {
      look<Codes, weighs, Bytes>(rows, group, n_groups, radii, sums.data() + i * Codes * apart, apart,
                                 &coded.codes[query + i], coded.errors[query + i], candidates[query + i]);
    }
  };
  for_pieces(0, block_.n_groups(), cached, [&](std::size_t chunk, std::size_t n_chunk) {
    poll(n * n_chunk * block_.stride());
    run_with(isa, [&](Isa known) {
      with_vectors(known, [&]<std::size_t Bytes>() {
        for_pieces(0, n, near, [&](std::size_t some, std::size_t n_some) {
          for_pieces(chunk, chunk + n_chunk, most_groups, [&](std::size_t group, std::size_t n_groups) {
            const Radii radii(rows, group, n_groups, std::span<const Errors>(coded.errors).subspan(some, n_some));
            for_pieces(some, some + n_some, at_once, [&](std::size_t query, std::size_t n_queries) {
              pass.template operator()<Bytes>(group, n_groups, radii, query, n_queries);
            });
          });
        });
      });
    });
    for (Candidates& of_query : candidates) of_query.others.add_up_blocks();
  });
  for (std::size_t i = 0; i < n; ++i) {
    const DenseRow q = queries.row(static_cast<Index>(i));
    const std::span<const Scored> found = candidates[i].best.finish(rows_, q, isa);
    std::ranges::transform(found, ids.begin() + static_cast<std::ptrdiff_t>(i * k), &Scored::id);
    std::ranges::transform(found, scores.begin() + static_cast<std::ptrdiff_t>(i * k), &Scored::score);
    if constexpr (weighs) {
      const double root = std::sqrt(static_cast<double>(n_coded_));
      const double of_code = Codes == 1 ? static_cast<double>(coded.errors[i].slack) : 0;
      const Spreads spreads{static_cast<double>(coded.errors[i].length) / root, of_code / root};
      normalizers[i] = normalizer(candidates[i], rows, spreads, found);
    }
  }
  return true;
}

bool ByteRows::best(const DenseView& queries, std::size_t k, bool twice, int n_threads, Isa isa, std::span<Index> ids,
                    std::span<float> scores, std::span<Normalizer> normalizers) const {
  // Queries for which the copy is read from memory once. By 256 the reading costs less than a tenth of their products;
  // most_kept bounds what they keep, k rows and more of each, to a few megabytes.
  constexpr std::size_t most = 256, most_kept = std::size_t{1} << 18;
  const auto n = static_cast<std::size_t>(queries.n_rows()), threads = static_cast<std::size_t>(std::max(n_threads, 1));
  const std::size_t tile = std::clamp(std::min((n + threads - 1) / threads, most_kept / k), std::size_t{1}, most);
  std::atomic<bool> coded{true};
  parallel_for(n_threads, (n + tile - 1) / tile, [&](std::size_t t) {
    const std::size_t first = t * tile, size = std::min(tile, n - first);
    const DenseView some = queries.rows_from(first, size);
    const auto of_ids = ids.subspan(first * k, size * k);
    const auto of_scores = scores.subspan(first * k, size * k);
    bool all = false;
    if (normalizers.empty()) {
      all = best_of<1, false>(some, k, isa, of_ids, of_scores, {});
    } else if (twice) {
      all = best_of<2, true>(some, k, isa, of_ids, of_scores, normalizers.subspan(first, size));
    } else {
      all = best_of<1, true>(some, k, isa, of_ids, of_scores, normalizers.subspan(first, size));
    }
    if (!all) coded.store(false, std::memory_order_relaxed);
  });
  return coded;
}

}  // namespace manyclass
