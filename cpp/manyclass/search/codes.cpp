// Vectors as bytes: see the header.
#include "manyclass/search/codes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace manyclass {

namespace {

constexpr std::size_t lanes = 16;
constexpr float most = 127;
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

float largest_magnitude(DenseRow x) {
  std::array<float, lanes> best{};
  std::size_t j = 0;
  for (; j + lanes <= x.size(); j += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) {
      const float a = std::fabs(x[j + l]);
      best[l] = a > best[l] ? a : best[l];
    }
  }
  float top = 0;
  for (; j < x.size(); ++j) top = std::max(top, std::fabs(x[j]));
  for (const float b : best) top = std::max(top, b);
  return top;
}

// To the nearest integer, for |x| <= 127: adding 2^23 + 2^22 leaves it in the low bits of a float, without a call.
inline std::int32_t nearest(float x) {
  constexpr float magic = 0x1.8p23F;
  return static_cast<std::int32_t>((x + magic) - magic);
}

double square(double x) { return x * x; }

}  // namespace

double norm(DenseRow x) {
  return std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(static_cast<double>(x[j])); }));
}

QueryCodes::QueryCodes(std::size_t n, std::size_t n_features)
    : width_(chunks_of(n_features) * chunk_dims), bytes_(n * width_), words_(n * width_), codes_(n) {
  for (std::size_t i = 0; i < n; ++i) {
    codes_[i].bytes = bytes_.data() + i * width_;
    codes_[i].words = words_.data() + i * width_;
  }
}

bool QueryCodes::encode(std::size_t i, DenseRow x) {
  const double length = norm(x);
  if (!(length <= static_cast<double>(largest_norm))) return false;
  // 255 |b| D, the largest sum of products that a scan may meet, must be an int32.
  const std::size_t room = std::numeric_limits<std::int32_t>::max() / (255 * width_);
  const float range = std::min(most, static_cast<float>(room));
  const float top = largest_magnitude(x);
  const float scale = top / range;
  // A scale that is zero or subnormal makes no code: its error is then the query itself.
  const bool codes = scale >= std::numeric_limits<float>::min();
  const float inverse = codes ? 1 / scale : 0;
  std::int8_t* bytes = bytes_.data() + i * width_;
  std::int16_t* words = words_.data() + i * width_;
  for (std::size_t j = 0; j < x.size(); ++j) {
    const auto b = nearest(std::clamp(x[j] * inverse, -range, range));
    bytes[j] = static_cast<std::int8_t>(b);
    words[j] = static_cast<std::int16_t>(b);
  }
  std::int32_t sum = 0;
  for (std::size_t j = 0; j < x.size(); ++j) sum += bytes[j];
  const double t = static_cast<double>(scale);
  const double coded = t * std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(bytes[j]); }));
  const double error =
      std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(static_cast<double>(x[j]) - t * bytes[j]); }));
  QueryCode& code = codes_[i];
  code.offset = -128 * sum;
  code.scale = scale;
  code.coded_norm = static_cast<float>(coded * round_up);
  code.slack = static_cast<float>((error + (static_cast<double>(x.size()) + 64) * 0x1p-24 * length) * round_up);
  return true;
}

CodeBlock::CodeBlock(std::size_t n_features)
    : chunks_(chunks_of(n_features)), stride_(chunks_ * chunk_dims * group_rows + sizeof(GroupTail)) {}

GroupTail* CodeBlock::tail_at(std::byte* group, std::size_t chunks) {
  return std::launder(reinterpret_cast<GroupTail*>(group + chunks * chunk_dims * group_rows));
}

const GroupTail* CodeBlock::tail_at(const std::byte* group) const {
  return std::launder(reinterpret_cast<const GroupTail*>(group + chunks_ * chunk_dims * group_rows));
}

void CodeBlock::reserve(std::size_t n_rows) {
  const std::size_t groups = (n_rows + group_rows - 1) / group_rows;
  if (groups <= capacity_) return;
  std::unique_ptr<std::byte[], Free> moved(static_cast<std::byte*>(::operator new(groups * stride_, alignment)));
  const std::size_t used = n_groups();
  if (used > 0) std::memcpy(moved.get(), data_.get(), used * stride_);
  for (std::size_t g = used; g < groups; ++g) {
    std::byte* group = moved.get() + g * stride_;
    std::memset(group, 0, stride_ - sizeof(GroupTail));
    auto* tail = new (group + stride_ - sizeof(GroupTail)) GroupTail{};
    tail->norm.fill(-std::numeric_limits<float>::infinity());
    tail->ids.fill(-1);
  }
  data_ = std::move(moved);
  capacity_ = groups;
}

void CodeBlock::append(Index id, DenseRow w) {
  if (size_ == capacity_ * group_rows) reserve(std::max(size_ + size_ / 4, size_ + group_rows));
  const std::size_t slot = size_++;
  tail_at(data_.get() + slot / group_rows * stride_, chunks_)->ids[slot % group_rows] = id;
  encode(slot, w);
}

void CodeBlock::replace(std::size_t slot, DenseRow w) { encode(slot, w); }

Index CodeBlock::remove(std::size_t slot) {
  const std::size_t last = --size_;
  std::byte* to = data_.get() + slot / group_rows * stride_;
  std::byte* from = data_.get() + last / group_rows * stride_;
  GroupTail* to_tail = tail_at(to, chunks_);
  GroupTail* from_tail = tail_at(from, chunks_);
  const std::size_t a = slot % group_rows;
  const std::size_t b = last % group_rows;
  if (slot != last) {
    for (std::size_t c = 0; c < chunks_; ++c) {
      std::memcpy(to + (c * group_rows + a) * chunk_dims, from + (c * group_rows + b) * chunk_dims, chunk_dims);
    }
    to_tail->scale[a] = from_tail->scale[b];
    to_tail->error[a] = from_tail->error[b];
    to_tail->norm[a] = from_tail->norm[b];
    to_tail->ids[a] = from_tail->ids[b];
  }
  from_tail->norm[b] = -std::numeric_limits<float>::infinity();
  from_tail->ids[b] = -1;
  return slot == last ? -1 : to_tail->ids[a];
}

void CodeBlock::encode(std::size_t slot, DenseRow w) {
  std::byte* group = data_.get() + slot / group_rows * stride_;
  GroupTail* tail = tail_at(group, chunks_);
  const std::size_t lane = slot % group_rows;
  const float scale = largest_magnitude(w) / most;
  const bool codes = scale >= std::numeric_limits<float>::min();
  const float inverse = codes ? 1 / scale : 0;
  const double s = static_cast<double>(scale);
  double error = 0;
  for (std::size_t c = 0; c < chunks_; ++c) {
    std::array<std::uint8_t, chunk_dims> bytes;
    for (std::size_t l = 0; l < chunk_dims; ++l) {
      const std::size_t j = c * chunk_dims + l;
      const float x = j < w.size() ? w[j] : 0;
      const std::int32_t n = nearest(std::clamp(x * inverse, -most, most));
      error += square(static_cast<double>(x) - s * n);
      bytes[l] = static_cast<std::uint8_t>(n + 128);
    }
    std::memcpy(group + (c * group_rows + lane) * chunk_dims, bytes.data(), chunk_dims);
  }
  tail->scale[lane] = scale;
  tail->error[lane] = static_cast<float>(std::sqrt(error) * round_up);
  tail->norm[lane] = static_cast<float>(norm(w) * round_up);
}

}  // namespace manyclass
