// Vectors as bytes: a score from the bytes and a bound on its error, so that few exact scores are needed.
//
// A row w is kept as s c with integers c in [-127, 127] and the scale s = max|w| / 127, a query q likewise as t b. Then
//
//   |w.q - s t (c.b)| = |(w - s c).(t b) + w.(q - t b)| <= error(w) |t b| + |w| error(q),
//
// where error(v) = |v - its code|,
//
// by Cauchy and Schwarz; rounding adds no more than (D + 64) 2^-24 |w| |q| for the sums and products of D terms in
// single precision, in any order. With error about 0.7 % of a norm each, a scan of bytes leaves a few dozen of 10^5
// rows whose exact score has to be seen, reads a quarter of the memory, and its answer is that of a scan of floats.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/types.hpp"

namespace manyclass {

inline constexpr std::size_t group_rows = 16;  // rows scored at once: a 512-bit register of 32-bit sums
inline constexpr std::size_t chunk_dims = 4;   // neighbouring bytes of a row that one instruction multiplies

// Norms that scores may be made of: the square of the largest is far below the largest float.
inline constexpr float largest_norm = 0x1p62F;
// What is lost where products fall below the normal floats: D 2^-126 and less.
inline constexpr float underflow_slack = 0x1p-100F;

inline std::size_t chunks_of(std::size_t n_features) { return (n_features + chunk_dims - 1) / chunk_dims; }

// Euclidean norm in double precision.
double norm(DenseRow x, Isa isa);

// The coded query: what a scan needs of it.
struct QueryCode {
  const std::int8_t* bytes = nullptr;   // chunks of 4, zero-padded
  const std::int16_t* words = nullptr;  // the same numbers
  std::int32_t offset = 0;              // -128 sum b: rows are stored as c + 128
  float scale = 0;                      // t
  float coded_norm = 0;                 // |t b|
  float slack = 0;                      // error(q) and rounding, to be multiplied by |w|
};

// Queries of one batch, coded into one piece of memory.
class QueryCodes {
 public:
  QueryCodes(std::size_t n, std::size_t n_features);

  // False where x has a value that is not finite or a norm above largest_norm.
  bool encode(std::size_t i, DenseRow x, Isa isa);
  const QueryCode& operator[](std::size_t i) const { return codes_[i]; }
  std::span<const QueryCode> some(std::size_t begin, std::size_t n) const { return {codes_.data() + begin, n}; }

 private:
  std::size_t width_;
  std::vector<std::int8_t> bytes_;
  std::vector<std::int16_t> words_;
  std::vector<QueryCode> codes_;
};

// What stands behind the bytes of a group.
struct GroupTail {
  std::array<float, group_rows> scale;  // NaN where there is no row
  std::array<float, group_rows> error;  // |w - s c|, rounded up
  std::array<float, group_rows> norm;   // |w|, rounded up
  std::array<Index, group_rows> ids;
};

// Some rows with their ids, in groups of 16 that are contiguous in memory: bytes by chunk of dimensions, within a chunk
// by row, then the GroupTail. Rows are appended into slack at the end, removed by moving the last one into the hole.
class CodeBlock {
 public:
  explicit CodeBlock(std::size_t n_features);

  std::size_t size() const { return size_; }
  std::size_t n_groups() const { return (size_ + group_rows - 1) / group_rows; }
  std::size_t stride() const { return stride_; }
  std::size_t chunks() const { return chunks_; }
  const std::byte* group(std::size_t g) const { return data_.get() + g * stride_; }
  const GroupTail& tail(std::size_t g) const { return tail_of(data_.get() + g * stride_); }
  Index id(std::size_t slot) const { return tail(slot / group_rows).ids[slot % group_rows]; }

  void reserve(std::size_t n_rows);
  void append(Index id, DenseRow w, Isa isa);
  void replace(std::size_t slot, DenseRow w, Isa isa);
  // Asks for the cache lines of a slot's group, one a chunk: a change of a row touches them all.
  void prefetch(std::size_t slot) const {
    if (slot >= capacity_ * group_rows) return;
    const std::byte* start = group(slot / group_rows);
    for (std::size_t b = 0; b < stride_; b += 64) __builtin_prefetch(start + b, 1);
  }
  // Returns the id of the row that has taken the slot, or -1 where the last slot was removed.
  Index remove(std::size_t slot);

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };

  GroupTail& tail_of(std::byte* group) const;

  std::size_t chunks_;
  std::size_t stride_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  // in groups
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace manyclass
