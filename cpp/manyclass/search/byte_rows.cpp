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
constexpr double round_up = 1 + 0x1p-20;
constexpr std::size_t pass_rows = most_groups * group_rows;  // rows that a kernel passes at once

// Scores of the rows of a pass; -infinity where there is no row, or one that is not to be counted.
using Scores = std::array<float, pass_rows>;

// The products of some queries with the rows of a pass.
using Products = std::array<std::int32_t, most_queries * pass_rows>;

// The largest of n numbers, a multiple of sixteen, by halves: neither compiler makes vectors of a largest number.
template <std::size_t Bytes>
inline float largest_of(const float* z, std::size_t n) {
  if constexpr (Bytes == sizeof(float)) {
    return std::max(z[0], z[n - 1]);  // n is 2
  } else {
    constexpr std::size_t n_lanes = Bytes / sizeof(float);
    Vector<float, Bytes> top, some;
    std::memcpy(&top, z, Bytes);
    for (std::size_t r = n_lanes; r < n; r += n_lanes) {
      std::memcpy(&some, z + r, Bytes);
      top = some > top ? some : top;
    }
    alignas(Bytes) float lanes[n_lanes];
    std::memcpy(lanes, &top, Bytes);
    return largest_of<Bytes / 2>(lanes, n_lanes);
  }
}

// Bounds of a query's errors.
struct Errors {
  float length = 0;    // |q| and the error of its code, which bounds the code's length
  float slack = 0;     // to be multiplied by |w|
  float rounding = 0;  // of sums and products in single precision, to be multiplied by |b|

  float radius(float error, float norm, float intercept) const {
    return length * error + slack * norm + rounding * intercept + underflow_slack;
  }
};

// Codes of some queries and their bounds.
struct CodedQueries {
  CodedQueries(std::size_t n, std::size_t n_features, std::size_t n_codes) : codes(n, n_features, n_codes), errors(n) {}

  // False where q is not finite or too large.
  bool encode(std::size_t i, DenseRow q, Isa isa) {
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

// Sums over scores z that arrive in passes, of e^z, of the squares of e^z error and of e^z norm, less the largest z so
// far. Which rows share a lane does not depend on the queries beside, so that neither do the bits of the sums.
struct WeighedSums {
  float base = minus_infinity;
  double sum = 0, square = 0, length = 0;

  // `top` is the largest of z. `Bytes` are those of a register. A plain loop over columns of sixteen stays scalar.
  template <std::size_t Bytes>
  void add(const Scores& z, float top, const ByteRows::Bounds& largest) {
    constexpr std::size_t n_lanes = Bytes / sizeof(float);
    using Lanes = Vector<float, Bytes>;
    if (top > base) rebase(top);
    if (base == minus_infinity) return;
    // No term is a number whose square is below the normal ones, whose arithmetic is slow; nor, where z is NaN, a NaN.
    constexpr float lowest = -36;
    alignas(64) Scores terms;
    for (std::size_t k = 0; k < z.size(); ++k) {
      const float below = z[k] - base;
      terms[k] = below > lowest ? vec::exp(below) : 0.0F;
    }
    for (std::size_t l = 0; l < group_rows; l += n_lanes) {
      Lanes of_terms{}, of_squared{}, term;
      for (std::size_t k = l; k < z.size(); k += group_rows) {
        std::memcpy(&term, terms.data() + k, Bytes);
        of_terms += term;
        of_squared += term * term;
      }
      const auto add_to = [&](float* to, const Lanes& some) {
        std::memcpy(&term, to + l, Bytes);
        term += some;
        std::memcpy(to + l, &term, Bytes);
      };
      add_to(sums_.data(), of_terms);
      add_to(squares_.data(), of_squared * (largest.error * largest.error));
      add_to(lengths_.data(), of_terms * largest.norm);
    }
  }

  // To be called once a few dozen passes have come, whose sums are floats, and at the end.
  void add_up() {
    for (const float some : std::exchange(sums_, {})) sum += static_cast<double>(some);
    for (const float some : std::exchange(squares_, {})) square += static_cast<double>(some);
    for (const float some : std::exchange(lengths_, {})) length += static_cast<double>(some);
  }

 private:
  void rebase(float next) {
    add_up();
    const double factor = std::exp(static_cast<double>(base) - static_cast<double>(next));
    sum *= factor;
    square *= factor * factor;
    length *= factor;
    base = next;
  }

  std::array<float, group_rows> sums_{}, squares_{}, lengths_{};
};

// A row that reached the bar.
struct Reaching {
  Scored row;  // with the score that its code says
  float error, norm;
};

// What is known of a query while rows pass.
struct Candidates {
  Best best;
  WeighedSums others;  // rows that never reached the bar
  std::vector<Reaching> reaching;
};

// What makes standard deviations of scores of the errors and the norms of rows.
struct Spreads {
  double own;     // times error(w): of one row, independent of others
  double shared;  // times |w|: of the query's code, by which the scores of all rows err together
};

// The normaliser of the rows that candidates have met, of which some are known, best first. Errors that rows share add
// up at most.
Normalizer normalizer(const Candidates& candidates, const Spreads& spreads, std::span<const Scored> known) {
  std::vector<Index> counted(known.size());
  std::ranges::transform(known, counted.begin(), &Scored::id);
  std::ranges::sort(counted);
  const auto is_known = [&](const Reaching& one) { return std::ranges::binary_search(counted, one.row.id); };
  const WeighedSums& others = candidates.others;
  float top = std::max(others.base, known.front().score);
  for (const Reaching& one : candidates.reaching) top = is_known(one) ? top : std::max(top, one.row.score);
  const auto term = [top](float z) { return std::exp(static_cast<double>(z) - static_cast<double>(top)); };
  const double of_others = term(others.base);
  double sum = others.sum * of_others, square = others.square * of_others * of_others,
         length = others.length * of_others;
  for (const Reaching& one : candidates.reaching) {
    if (is_known(one)) continue;
    const double weight = term(one.row.score), deviation = weight * static_cast<double>(one.error);
    sum += weight;
    square += deviation * deviation;
    length += weight * static_cast<double>(one.norm);
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
  largest_.resize((n_rows + pass_rows - 1) / pass_rows);
  scales_.resize(largest_.size() * pass_rows);
  intercepts_.resize(scales_.size(), minus_infinity);
  for (std::size_t k = 0; k < n_rows; ++k) {
    const DenseRow row = rows[static_cast<Index>(k)];
    block_.append(static_cast<Index>(k), row.first(n_coded), isa);
    const GroupTail& tail = block_.tail(k / group_rows);
    scales_[k] = widened(tail.scale[k % group_rows]);
    intercepts_[k] = has_intercept ? row[n_coded] : 0.0F;
    Bounds& largest = largest_[k / pass_rows];
    largest.error = std::max(largest.error, widened(block_.errors(k / group_rows)->error[k % group_rows]));
    largest.norm = std::max(largest.norm, widened(tail.norm[k % group_rows]));
    largest.intercept = std::max(largest.intercept, std::fabs(intercepts_[k]));
  }
}

// Some queries on one thread. `Codes` says whether a query is coded once or twice, `weighs` whether normalisers are
// made.
template <std::size_t Codes, bool weighs>
class Pass {
 public:
  Pass(const ByteRows& rows, const DenseView& queries, std::size_t k, Isa isa)
      : rows_(rows),
        queries_(queries),
        n_(static_cast<std::size_t>(queries.n_rows())),
        isa_(isa),
        coded_(n_, rows.n_coded_, Codes),
        candidates_(n_),
        kernels_(scan_kernels(isa, rows.block_.coding().bits).by_shape) {
    for (Candidates& of_query : candidates_) of_query.best.start(k, minus_infinity, {});
  }

  // False where a query has no code.
  bool encode() {
    for (std::size_t i = 0; i < n_; ++i) {
      if (!coded_.encode(i, queries_.row(static_cast<Index>(i)).first(rows_.n_coded_), isa_)) return false;
    }
    return true;
  }

  void run() {
    // Groups that stay in the second-level cache (of 1 MB) while all queries pass, and queries whose codes stay in the
    // nearest one (of 32 kB) while the groups pass, four at a time.
    constexpr std::size_t cached_bytes = std::size_t{1} << 19, near_bytes = std::size_t{1} << 13;
    constexpr std::size_t at_once = most_queries / Codes;
    const CodeBlock& block = rows_.block_;
    const std::size_t cached = std::max(cached_bytes / block.stride() / most_groups, std::size_t{1}) * most_groups;
    const std::size_t near = std::max(near_bytes / (Codes * rows_.n_coded_) / at_once, std::size_t{1}) * at_once;
    alignas(64) Products products;
    const auto pass = [&]<std::size_t Bytes>(std::size_t group, std::size_t n_groups, std::size_t query,
                                             std::size_t n_queries) {
      kernels_[n_queries * Codes - 1][n_groups - 1](block.group(group), block.stride(), block.chunks(),
                                                    coded_.codes.some(query, n_queries).data(), products.data());
      const std::size_t apart = n_groups * group_rows;
      for (std::size_t i = 0; i < n_queries; ++i) {
        look<Bytes>(group, n_groups, query + i, products.data() + i * Codes * apart, apart);
      }
    };
    for_pieces(0, block.n_groups(), cached, [&](std::size_t chunk, std::size_t n_chunk) {
      poll(n_ * n_chunk * block.stride());
      run_with(isa_, [&](Isa known) {
        with_vectors(known, [&]<std::size_t Bytes>() {
          for_pieces(0, n_, near, [&](std::size_t some, std::size_t n_some) {
            for_pieces(chunk, chunk + n_chunk, most_groups, [&](std::size_t group, std::size_t n_groups) {
              for_pieces(some, some + n_some, at_once, [&](std::size_t query, std::size_t n_queries) {
                pass.template operator()<Bytes>(group, n_groups, query, n_queries);
              });
            });
          });
        });
      });
      for (Candidates& of_query : candidates_) of_query.others.add_up();
    });
  }

  void finish(std::size_t k, std::span<Index> ids, std::span<float> scores, std::span<Normalizer> normalizers) {
    for (std::size_t i = 0; i < n_; ++i) {
      const DenseRow q = queries_.row(static_cast<Index>(i));
      const std::span<const Scored> found = candidates_[i].best.finish(rows_.rows_, q, isa_);
      std::ranges::transform(found, ids.begin() + static_cast<std::ptrdiff_t>(i * k), &Scored::id);
      std::ranges::transform(found, scores.begin() + static_cast<std::ptrdiff_t>(i * k), &Scored::score);
      if constexpr (weighs) {
        const double root = std::sqrt(static_cast<double>(rows_.n_coded_));
        const double of_code = Codes == 1 ? static_cast<double>(coded_.errors[i].slack) : 0;
        const Spreads spreads{static_cast<double>(coded_.errors[i].length) / root, of_code / root};
        normalizers[i] = normalizer(candidates_[i], spreads, found);
      }
    }
  }

 private:
  // The rows of some groups, whose products with the codes of a query stand `apart` from each other.
  template <std::size_t Bytes>
  void look(std::size_t group, std::size_t n_groups, std::size_t query, const std::int32_t* products,
            std::size_t apart) {
    const std::size_t row = group * group_rows;
    const QueryCode* codes = &coded_.codes[query];
    const float t = codes[0].scale, t_2 = codes[Codes - 1].scale;
    const float *scale = rows_.scales_.data() + row, *b = rows_.intercepts_.data() + row;
    alignas(64) Scores z;
    if (n_groups < most_groups) z.fill(minus_infinity);
    for (std::size_t r = 0; r < n_groups * group_rows; ++r) {
      float product = t * static_cast<float>(products[r]);
      if constexpr (Codes == 2) product += t_2 * static_cast<float>(products[apart + r]);
      z[r] = scale[r] * product + b[r];
    }
    Candidates& candidates = candidates_[query];
    const ByteRows::Bounds& largest = rows_.largest_[row / pass_rows];
    float top = largest_of<Bytes>(z.data(), pass_rows);
    const float radius = coded_.errors[query].radius(largest.error, largest.norm, largest.intercept);
    if (top + radius >= candidates.best.bar()) {
      for (std::size_t g = 0; g < n_groups; ++g) offer<Bytes>(group + g, query, z.data() + g * group_rows);
      top = largest_of<Bytes>(z.data(), pass_rows);
    }
    if constexpr (weighs) candidates.others.add<Bytes>(z, top, largest);
  }

  // Offers the rows of a group and takes those that reach the bar out of what is summed.
  template <std::size_t Bytes>
  void offer(std::size_t group, std::size_t query, float* z) {
    const GroupTail& tail = rows_.block_.tail(group);
    const GroupErrors& coded = *rows_.block_.errors(group);
    const Errors& errors = coded_.errors[query];
    const float* b = rows_.intercepts_.data() + group * group_rows;
    Candidates& candidates = candidates_[query];
    const float bar = candidates.best.bar();
    GroupBounds bounds;
    alignas(64) std::array<float, group_rows> upper;
    for (std::size_t r = 0; r < group_rows; ++r) {
      bounds.middle[r] = z[r];
      bounds.radius[r] = errors.radius(widened(coded.error[r]), widened(tail.norm[r]), std::fabs(b[r]));
      upper[r] = tail.ids[r] < 0 ? minus_infinity : z[r] + bounds.radius[r];
    }
    if (!(largest_of<Bytes>(upper.data(), group_rows) >= bar)) return;
    for (std::size_t r = 0; r < group_rows && weighs; ++r) {
      if (!(upper[r] >= bar)) continue;
      candidates.reaching.push_back({{z[r], tail.ids[r]}, widened(coded.error[r]), widened(tail.norm[r])});
      z[r] = minus_infinity;
    }
    candidates.best.offer(bounds, tail.ids);
  }

  const ByteRows& rows_;
  const DenseView& queries_;
  std::size_t n_;
  Isa isa_;
  CodedQueries coded_;
  std::vector<Candidates> candidates_;
  const std::array<std::array<ScanKernel, most_groups>, most_queries>& kernels_;
};

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
    const auto answer = [&](auto&& pass) {
      if (!pass.encode()) return coded.store(false, std::memory_order_relaxed);
      pass.run();
      pass.finish(k, ids.subspan(first * k, size * k), scores.subspan(first * k, size * k),
                  normalizers.empty() ? normalizers : normalizers.subspan(first, size));
    };
    if (normalizers.empty()) return answer(Pass<1, false>(*this, some, k, isa));
    if (twice) return answer(Pass<2, true>(*this, some, k, isa));
    answer(Pass<1, true>(*this, some, k, isa));
  });
  return coded;
}

}  // namespace manyclass
