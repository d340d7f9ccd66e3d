// Vectors as bytes: see the header.
#include "manyclass/search/codes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "manyclass/core/huge_pages.hpp"
#include "manyclass/math/sums.hpp"

namespace manyclass {

namespace {

constexpr std::size_t lanes = 16;
constexpr float most = 127;
constexpr float no_row = std::numeric_limits<float>::quiet_NaN();  // a scale whose scores reach no bar
constexpr double round_up = 1 + 0x1p-20;  // more than the rounding of a norm in double to single precision

// Sum of term(j) over [0, n) as sixteen running sums, which the compiler may vectorise without reordering a sum.
template <class Term>
double lane_sum(std::size_t n, const Term& term) {
  std::array<double, lanes> sums{};
  std::size_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += term(j + l);
  }
  double total = 0;
  for (; j < n; ++j) total += term(j);
  for (const double sum : sums) total += sum;
  return total;
}

// To the nearest integer, for |x| <= 127: adding 2^23 + 2^22 leaves it in the low bits of a float, without a call.
inline std::int32_t nearest(float x) {
  constexpr float magic = 0x1.8p23F;
  return static_cast<std::int32_t>((x + magic) - magic);
}

double square(double x) { return x * x; }

double norm_of(DenseRow x) {
  return std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(static_cast<double>(x[j])); }));
}

struct Coded {
  float scale = 0;
  double norm = 0;   // of the code
  double error = 0;  // |x - code|
};

// x ~ scale * bytes with bytes in [-range, range].
Coded code(DenseRow x, float range, std::int8_t* bytes) {
  Coded coded;
  coded.scale = largest_of(x) / range;
  // A scale that is zero or subnormal makes no code: its error is then the vector itself.
  const float inverse = coded.scale >= std::numeric_limits<float>::min() ? 1 / coded.scale : 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    bytes[j] = static_cast<std::int8_t>(nearest(std::clamp(x[j] * inverse, -range, range)));
  }
  const double s = static_cast<double>(coded.scale);
  coded.norm = s * std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(bytes[j]); }));
  coded.error =
      std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(static_cast<double>(x[j]) - s * bytes[j]); }));
  return coded;
}

}  // namespace

double norm(DenseRow x, Isa isa) {
  double length = 0;
  run_with(isa, [&] { length = norm_of(x); });
  return length;
}

QueryCodes::QueryCodes(std::size_t n, std::size_t n_features)
    : width_(chunks_of(n_features) * chunk_dims), bytes_(n * width_), words_(n * width_), codes_(n) {
  for (std::size_t i = 0; i < n; ++i) {
    codes_[i].bytes = bytes_.data() + i * width_;
    codes_[i].words = words_.data() + i * width_;
  }
}

bool QueryCodes::encode(std::size_t i, DenseRow x, Isa isa) {
  double length = 0;
  Coded coded;
  std::int32_t sum = 0;
  // 255 |b| D, the largest sum of products that a scan may meet, must be an int32.
  const std::size_t room = std::numeric_limits<std::int32_t>::max() / (255 * width_);
  const float range = std::min(most, static_cast<float>(room));
  run_with(isa, [&] {
    length = norm_of(x);
    if (!(length <= static_cast<double>(largest_norm))) return;
    std::int8_t* bytes = bytes_.data() + i * width_;
    coded = code(x, range, bytes);
    for (std::size_t j = 0; j < x.size(); ++j) {
      words_[i * width_ + j] = bytes[j];
      sum += bytes[j];
    }
  });
  const double rounding = (static_cast<double>(x.size()) + 64) * 0x1p-24 * length;
  codes_[i].offset = -128 * sum;
  codes_[i].scale = coded.scale;
  codes_[i].coded_norm = static_cast<float>(coded.norm * round_up);
  codes_[i].slack = static_cast<float>((coded.error + rounding) * round_up);
  return length <= static_cast<double>(largest_norm);
}

CodeBlock::CodeBlock(std::size_t n_features)
    : chunks_(chunks_of(n_features)), stride_(chunks_ * chunk_dims * group_rows + sizeof(GroupTail)) {}

GroupTail& CodeBlock::tail_of(std::byte* group) const {
  return *std::launder(reinterpret_cast<GroupTail*>(group + chunks_ * chunk_dims * group_rows));
}

void CodeBlock::reserve(std::size_t n_rows) {
  const std::size_t groups = (n_rows + group_rows - 1) / group_rows;
  if (groups <= capacity_) return;
  std::unique_ptr<std::byte[], Free> moved(static_cast<std::byte*>(::operator new(groups * stride_, alignment)));
  // A scan of a million rows of 128 in one cluster takes 5 % less time (bench/decisions.md).
  ask_for_huge_pages(moved.get(), groups * stride_);
  const std::size_t used = n_groups();
  if (used > 0) std::memcpy(moved.get(), data_.get(), used * stride_);
  for (std::size_t g = used; g < groups; ++g) {
    std::byte* group = moved.get() + g * stride_;
    std::memset(group, 0, stride_ - sizeof(GroupTail));
    auto* tail = new (group + stride_ - sizeof(GroupTail)) GroupTail{};
    tail->scale.fill(no_row);
    tail->ids.fill(-1);
  }
  data_ = std::move(moved);
  capacity_ = groups;
}

void CodeBlock::append(Index id, DenseRow w, Isa isa) {
  if (size_ == capacity_ * group_rows) reserve(std::max(size_ + size_ / 4, size_ + group_rows));
  const std::size_t slot = size_++;
  tail_of(data_.get() + slot / group_rows * stride_).ids[slot % group_rows] = id;
  replace(slot, w, isa);
}

void CodeBlock::replace(std::size_t slot, DenseRow w, Isa isa) {
  std::byte* group = data_.get() + slot / group_rows * stride_;
  GroupTail& tail = tail_of(group);
  const std::size_t lane = slot % group_rows;
  std::vector<std::int8_t> bytes(chunks_ * chunk_dims);
  run_with(isa, [&] {
    const Coded coded = code(w, most, bytes.data());
    tail.scale[lane] = coded.scale;
    tail.error[lane] = static_cast<float>(coded.error * round_up);
    tail.norm[lane] = static_cast<float>(norm_of(w) * round_up);
    std::byte* out = group + lane * chunk_dims;
    for (std::size_t c = 0; c < chunks_; ++c, out += group_rows * chunk_dims) {
      for (std::size_t l = 0; l < chunk_dims; ++l) out[l] = static_cast<std::byte>(bytes[c * chunk_dims + l] + 128);
    }
  });
}

Index CodeBlock::remove(std::size_t slot) {
  const std::size_t last = --size_;
  std::byte* to = data_.get() + slot / group_rows * stride_;
  std::byte* from = data_.get() + last / group_rows * stride_;
  GroupTail& to_tail = tail_of(to);
  GroupTail& from_tail = tail_of(from);
  const std::size_t a = slot % group_rows;
  const std::size_t b = last % group_rows;
  if (slot != last) {
    for (std::size_t c = 0; c < chunks_; ++c) {
      std::memcpy(to + (c * group_rows + a) * chunk_dims, from + (c * group_rows + b) * chunk_dims, chunk_dims);
    }
    to_tail.scale[a] = from_tail.scale[b];
    to_tail.error[a] = from_tail.error[b];
    to_tail.norm[a] = from_tail.norm[b];
    to_tail.ids[a] = from_tail.ids[b];
  }
  from_tail.scale[b] = no_row;
  from_tail.ids[b] = -1;
  return slot == last ? -1 : to_tail.ids[a];
}

}  // namespace manyclass
