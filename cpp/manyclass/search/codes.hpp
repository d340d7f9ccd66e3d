// Vectors as codes of 8 or 4 bits a column: a score from the codes and a bound on its error, so that few exact scores
// are needed, or none.
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
//
// Where rows are not kept beside their codes, a row is what its code says, s c, which has no error. The query then has
// two codes, t b and that of what this one leaves: groups that reach the bar by the first are scored by both, to some
// 2^-14 |w| |q|, and no row is read again. Such rows and queries are rotated, so that no column needs a scale of its
// own. With 4 bits c is one of 16 bytes, the levels that are best for normal numbers (Max, 1960), and s makes the
// estimate unbiased along the row, s |c|^2 = |w|^2 / cos^2 (RaBitQ; Gao and Long, arXiv 2405.12497, 2409.09913).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/types.hpp"
#include "manyclass/search/rotation.hpp"

namespace manyclass {

inline constexpr std::size_t group_rows = 16;  // rows scored at once: a 512-bit register of 32-bit sums
inline constexpr std::size_t chunk_dims = 4;   // neighbouring bytes of a row that one instruction multiplies
inline constexpr std::size_t chunk_bytes = group_rows * chunk_dims;

// Norms that scores may be made of: the square of the largest is far below the largest float.
inline constexpr float largest_norm = 0x1p62F;
// What is lost where products fall below the normal floats: D 2^-126 and less.
inline constexpr float underflow_slack = 0x1p-100F;

// Bytes that 4 bits stand for.
inline constexpr std::array<std::int8_t, 16> levels{-127, -96, -75, -58, -44, -31, -18, -6,
                                                    6,    18,  31,  44,  58,  75,  96,  127};

// The upper half of a float: enough for scales and bounds of codes.
inline float widened(std::uint16_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }

// How rows are coded.
struct Coding {
  std::size_t n_features = 0;
  int bits = 8;                                // or 4
  int row_bits = 32;                           // of a number of the rows beside them, or 16; 0 where there are none
  std::shared_ptr<const Rotation> rotation{};  // of rows and queries; or none

  bool alone() const { return row_bits == 0; }  // whether a row is what its code says
  std::size_t dims_of_chunk() const { return chunk_dims * 8 / static_cast<std::size_t>(bits); }
  std::size_t chunks() const { return (n_features + dims_of_chunk() - 1) / dims_of_chunk(); }
};

// Euclidean norm in double precision.
double norm(DenseRow x, Isa isa);

// The coded query: what a scan needs of it.
struct QueryCode {
  const std::int8_t* bytes = nullptr;   // chunks of 8, zero-padded
  const std::int16_t* words = nullptr;  // the same numbers
  std::int32_t offset = 0;              // -128 sum b: rows are stored as c + 128
  float scale = 0;                      // t
  float coded_norm = 0;                 // |t b|
  float slack = 0;                      // error(q) and rounding, to be multiplied by |w|
  const QueryCode* rest = nullptr;      // of what the code leaves; or none
};

// Queries of one batch, coded into one piece of memory: once, or twice, the second code behind the first.
class QueryCodes {
 public:
  QueryCodes(std::size_t n, std::size_t n_features, std::size_t n_codes = 1);

  // False where x has a value that is not finite or a norm above largest_norm.
  bool encode(std::size_t i, DenseRow x, Isa isa);
  const QueryCode& operator[](std::size_t i) const { return codes_[i * n_codes_]; }
  std::span<const QueryCode> some(std::size_t begin, std::size_t n) const {
    return {codes_.data() + begin * n_codes_, n * n_codes_};
  }

 private:
  // |x|, above largest_norm where there is no code.
  double encode_once(std::size_t code, DenseRow x, Isa isa);

  std::size_t width_;
  std::size_t n_codes_;
  std::vector<std::int8_t> bytes_;
  std::vector<std::int16_t> words_;
  std::vector<QueryCode> codes_;
};

// What stands behind the codes of a group.
struct GroupTail {
  std::array<std::uint16_t, group_rows> scale;  // NaN where there is no row
  std::array<std::uint16_t, group_rows> norm;   // |w|, rounded up
  std::array<Index, group_rows> ids;
};
// And behind that, where rows are more than their codes.
struct alignas(64) GroupErrors {
  std::array<std::uint16_t, group_rows> error;  // |w - s c|, rounded up
};

// Some rows with their ids, in groups of 16 that are contiguous in memory: codes by chunk of dimensions, within a chunk
// by row, then the GroupTail. Rows are appended at the end, removed by moving the last one into the hole.
class CodeBlock {
 public:
  using Shape = Coding;

  explicit CodeBlock(const Coding& coding);

  std::size_t size() const { return size_; }
  std::size_t n_groups() const { return (size_ + group_rows - 1) / group_rows; }
  std::size_t stride() const { return stride_; }
  std::size_t capacity_bytes() const { return capacity_ * stride_; }
  std::size_t chunks() const { return chunks_; }
  const Coding& coding() const { return coding_; }
  const std::byte* group(std::size_t g) const { return data_.get() + g * stride_; }
  const GroupTail& tail(std::size_t g) const { return tail_of(data_.get() + g * stride_); }
  // None where rows are what their codes say.
  const GroupErrors* errors(std::size_t g) const {
    return coding_.alone() ? nullptr : errors_of(data_.get() + g * stride_);
  }
  Index id(std::size_t slot) const { return tail(slot / group_rows).ids[slot % group_rows]; }

  void reserve(std::size_t n_rows);  // and gives back what is far more
  void append(Index id, DenseRow w, Isa isa);
  void replace(std::size_t slot, DenseRow w, Isa isa);

  // The row that a code says, or, where that is asked for, as it was rotated.
  void decode(std::size_t slot, std::span<float> w, bool is_rotated = false) const;
  // The code and its scale as `bytes_of_code` bytes, for a file, and back.
  static std::size_t bytes_of_code(const Coding& coding) { return coding.chunks() * chunk_dims + 2; }
  void write(std::size_t slot, std::byte* code) const;
  void append(Index id, const std::byte* code, Isa isa);

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

  GroupTail& tail_of(std::byte* group) const {
    return *std::launder(reinterpret_cast<GroupTail*>(group + chunks_ * chunk_bytes));
  }
  GroupErrors* errors_of(std::byte* group) const {
    return std::launder(reinterpret_cast<GroupErrors*>(group + chunks_ * chunk_bytes + sizeof(GroupTail)));
  }
  std::size_t new_slot(Index id);

  Coding coding_;
  std::size_t chunks_;
  std::size_t stride_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  // in groups
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace manyclass
