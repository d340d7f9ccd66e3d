// The normaliser by head and tail: see the header.
#include "manyclass/search/log_normalizer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/math/elementary.hpp"
#include "manyclass/search/dense_tile.hpp"
#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

namespace {

// Distinct ids, drawn uniformly, and where each stands among them.
class Drawn {
 public:
  Drawn(std::size_t n_rows, std::size_t size, Rng rng) : slots_(std::bit_ceil(2 * size), empty) {
    ids_.reserve(size);
    if (size == n_rows) {
      for (std::size_t id = 0; id < n_rows; ++id) keep(static_cast<Index>(id));
    }
    while (ids_.size() < size) {
      const auto id = static_cast<Index>(rng.below(static_cast<std::uint32_t>(n_rows)));
      if (place_of(id) == empty) keep(id);
    }
  }

  std::span<const Index> ids() const { return ids_; }

  // -1 for an id that was not drawn.
  Index place_of(Index id) const { return slots_[slot_of(id)]; }

 private:
  static constexpr Index empty = -1;

  void keep(Index id) {
    slots_[slot_of(id)] = static_cast<Index>(ids_.size());
    ids_.push_back(id);
  }

  // The slot of an id, or the one it would get: open addressing in a table that is at most half full.
  std::size_t slot_of(Index id) const {
    const std::size_t mask = slots_.size() - 1;
    auto at = static_cast<std::size_t>(mix64(static_cast<std::uint64_t>(id))) & mask;
    while (slots_[at] != empty && ids_[static_cast<std::size_t>(slots_[at])] != id) at = (at + 1) & mask;
    return at;
  }

  std::vector<Index> ids_;
  std::vector<Index> slots_;
};

struct Moments {
  double sum = 0;      // of e^(z - base)
  double squares = 0;  // of its square
};

Moments moments(std::span<const float> z, float base, Isa isa) {
  constexpr std::size_t lanes = 16;  // sums that the compiler may not reorder itself
  std::array<double, lanes> sums{}, squares{};
  Moments total;
  run_with(isa, [&] {
    std::size_t i = 0;
    for (; i + lanes <= z.size(); i += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) {
        const auto e = static_cast<double>(vec::exp(z[i + l] - base));
        sums[l] += e;
        squares[l] += e * e;
      }
    }
    for (std::size_t l = 0; i < z.size(); ++i, ++l) {
      const auto e = static_cast<double>(vec::exp(z[i] - base));
      sums[l] += e;
      squares[l] += e * e;
    }
  });
  for (std::size_t l = 0; l < lanes; ++l) {
    total.sum += sums[l];
    total.squares += squares[l];
  }
  return total;
}

}  // namespace

static void check_found(const ClusterIndex& index, const Queries& queries, const Found& found,
                        const TailSample& sample) {
  const std::size_t n = index.n_rows(), least = found.width + 2;
  if (static_cast<std::size_t>(n_cols(queries)) != index.n_features() || found.scores.size() != found.ids.size() ||
      found.ids.size() != static_cast<std::size_t>(n_rows(queries)) * found.width) {
    throw std::invalid_argument("each query needs ids and as many scores");
  }
  for (const Offset id : found.ids) {
    if (id < -1 || id >= static_cast<Offset>(n)) throw std::invalid_argument("an id is out of range");
  }
  if (sample.size > n || (sample.size < n && sample.size < least)) {
    throw std::invalid_argument("a sample has " + std::to_string(sample.size) + " rows; it must have all " +
                                std::to_string(n) + ", or fewer and at least " + std::to_string(least));
  }
  if (sample.first % queries_per_sample != 0) {
    throw std::invalid_argument("the first query's number is not a multiple of " + std::to_string(queries_per_sample));
  }
}

void log_normalizers(const ClusterIndex& index, const Queries& queries, const Found& found, const TailSample& sample,
                     int n_threads, Isa isa, std::span<double> values, std::span<double> errors) {
  check_found(index, queries, found, sample);
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  const std::size_t n = values.size(), width = index.n_features();
  const std::size_t n_tiles = (n + queries_per_sample - 1) / queries_per_sample;
  parallel_for(n_threads, n_tiles, [&](std::size_t tile) {
    const Drawn drawn(index.n_rows(), sample.size, Rng({sample.seed, 0}, sample.first / queries_per_sample + tile));
    const std::size_t begin = tile * queries_per_sample;
    const std::size_t end = std::min(n, begin + queries_per_sample);
    std::vector<float> rows(drawn.ids().size() * width);
    for (std::size_t c = 0; c < drawn.ids().size(); ++c) {
      index.read(drawn.ids()[c], std::span(rows).subspan(c * width, width));
    }
    const ClassRows<const float> tail_rows(rows, static_cast<Index>(width));
    const DenseTile dense(queries, begin, end - begin, width);
    std::vector<float> tail(drawn.ids().size()), head;
    for (std::size_t i = begin; i < end; ++i) {
      poll(rows.size());
      run_with(isa, [&] {
        tail_rows.scores(dense[i - begin], ClassRange{0, static_cast<Index>(tail.size())}, std::span(tail));
      });
      head.clear();
      std::size_t n_tail = tail.size();
      for (std::size_t j = i * found.width; j < (i + 1) * found.width; ++j) {
        if (found.ids[j] < 0) continue;
        head.push_back(found.scores[j]);
        const Index place = drawn.place_of(static_cast<Index>(found.ids[j]));
        if (place < 0) continue;
        tail[static_cast<std::size_t>(place)] = nothing;
        --n_tail;
      }
      float base = *std::ranges::max_element(tail);
      for (const float z : head) base = std::max(base, z);
      const auto t = static_cast<double>(n_tail);
      const auto others = static_cast<double>(index.n_rows() - head.size());
      const Moments of_tail = moments(tail, base, isa);
      double z = moments(head, base, isa).sum, variance = 0;
      if (n_tail > 0) z += others / t * of_tail.sum;
      if (t < others) {
        const double spread = std::max(0.0, of_tail.squares - of_tail.sum * of_tail.sum / t) / (t - 1);
        variance = others * others * (1 - t / others) * spread / t;
      }
      const float best = head.empty() ? 0 : head.front();
      values[i] = (static_cast<double>(base) - static_cast<double>(best)) + std::log(z);
      errors[i] = std::sqrt(variance) / z;
    }
  });
}

}  // namespace manyclass
