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
constexpr std::uint16_t no_row = 0x7fc0;  // NaN, a scale whose scores reach no bar
constexpr double round_up = 1 + 0x1p-20;  // more than the rounding of a norm in double to single precision

// The number of one of the levels.
inline int number_of_level(int level) {
  int number = 0;
  for (std::size_t l = 1; l < levels.size(); ++l) number += level >= levels[l] ? 1 : 0;
  return number;
}

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

// Halves of floats that are no smaller than a number, and nearest to it.
std::uint16_t narrowed_up(float x) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + 0xffffU) >> 16);
}
std::uint16_t narrowed(float x) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + 0x8000U) >> 16);
}
std::uint16_t rounded_up(double x) { return narrowed_up(static_cast<float>(x * round_up)); }

double norm_of(DenseRow x) {
  return std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(static_cast<double>(x[j])); }));
}

struct Coded {
  float scale = 0;
  double norm = 0;   // of the code
  double error = 0;  // |x - code|
};

Coded errors_of_code(DenseRow x, float scale, const std::int8_t* bytes) {
  const double s = static_cast<double>(scale);
  return {
      scale, s * std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(bytes[j]); })),
      std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(static_cast<double>(x[j]) - s * bytes[j]); }))};
}

// x ~ scale * bytes with bytes in [-range, range].
Coded code(DenseRow x, float scale, float range, std::int8_t* bytes) {
  // A scale that is zero or subnormal makes no code: its error is then the vector itself.
  const float inverse = scale >= std::numeric_limits<float>::min() ? 1 / scale : 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    bytes[j] = static_cast<std::int8_t>(nearest(std::clamp(x[j] * inverse, -range, range)));
  }
  return errors_of_code(x, scale, bytes);
}

// x ~ scale * levels: of some steps that suit normal numbers the one whose code has the largest cosine with x.
Coded code_by_levels(DenseRow x, double length, std::int8_t* bytes) {
  constexpr float widest = 2.7326F;  // the highest level, in standard deviations
  constexpr std::size_t half = levels.size() / 2;
  const float step = static_cast<float>(length / std::sqrt(static_cast<double>(x.size()))) * widest / most;
  const auto write = [&](float inverse) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      const float magnitude = std::fabs(x[j]) * inverse;
      float level = levels[half];
      for (std::size_t l = half; l + 1 < levels.size(); ++l) {
        const float between = 0.5F * static_cast<float>(levels[l] + levels[l + 1]);
        level += magnitude > between ? static_cast<float>(levels[l + 1] - levels[l]) : 0;
      }
      bytes[j] = static_cast<std::int8_t>(x[j] < 0 ? -level : level);
    }
  };
  const auto product = [&] {
    return lane_sum(x.size(), [&](std::size_t j) { return static_cast<double>(x[j]) * bytes[j]; });
  };
  if (!(0.5F * step >= std::numeric_limits<float>::min())) return errors_of_code(x, 0, bytes);
  float best = 0;
  double largest = 0;
  for (const float share : {0.76F, 0.82F, 0.88F, 0.94F, 1.0F, 1.06F}) {
    write(1 / (share * step));
    const double cosine = product() / std::sqrt(lane_sum(x.size(), [&](std::size_t j) { return square(bytes[j]); }));
    if (cosine > largest) {
      largest = cosine;
      best = share;
    }
  }
  write(1 / (best * step));
  return errors_of_code(x, widened(narrowed(static_cast<float>(length * length / product()))), bytes);
}

}  // namespace

double norm(DenseRow x, Isa isa) {
  double length = 0;
  run_with(isa, [&] { length = norm_of(x); });
  return length;
}

QueryCodes::QueryCodes(std::size_t n, std::size_t n_features, std::size_t n_codes)
    : width_((n_features + 2 * chunk_dims - 1) / (2 * chunk_dims) * (2 * chunk_dims)),
      n_codes_(n_codes),
      bytes_(n * n_codes * width_),
      words_(bytes_.size()),
      codes_(n * n_codes) {
  for (std::size_t i = 0; i < codes_.size(); ++i) {
    codes_[i].bytes = bytes_.data() + i * width_;
    codes_[i].words = words_.data() + i * width_;
    if (i % n_codes == 0 && n_codes > 1) codes_[i].rest = &codes_[i + 1];
  }
}

bool QueryCodes::encode(std::size_t i, DenseRow x, Isa isa) {
  QueryCode& first = codes_[i * n_codes_];
  const double length = encode_once(i * n_codes_, x, isa);
  if (!(length <= static_cast<double>(largest_norm)) || n_codes_ == 1) {
    return length <= static_cast<double>(largest_norm);
  }
  std::vector<float> left(x.begin(), x.end());
  for (std::size_t j = 0; j < left.size(); ++j) left[j] -= first.scale * static_cast<float>(first.bytes[j]);
  encode_once(i * n_codes_ + 1, left, isa);
  return true;
}

double QueryCodes::encode_once(std::size_t i, DenseRow x, Isa isa) {
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
    coded = code(x, largest_of(x) / range, range, bytes);
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
  return length;
}

CodeBlock::CodeBlock(const Coding& coding)
    : coding_(coding),
      chunks_(coding.chunks()),
      stride_(chunks_ * chunk_bytes + sizeof(GroupTail) + (coding.alone() ? 0 : sizeof(GroupErrors))) {}

void CodeBlock::reserve(std::size_t n_rows) {
  const std::size_t groups = (n_rows + group_rows - 1) / group_rows;
  // Room for some more stays, so that clusters that rows come to and leave are seldom copied.
  if (groups <= capacity_ && capacity_ <= groups + groups / 8 + 2) return;
  std::unique_ptr<std::byte[], Free> moved(static_cast<std::byte*>(::operator new(groups * stride_, alignment)));
  // A scan of a million rows of 128 in one cluster takes 5 % less time (bench/decisions.md).
  ask_for_huge_pages(moved.get(), groups * stride_);
  const std::size_t used = n_groups();
  if (used > 0) std::memcpy(moved.get(), data_.get(), used * stride_);
  for (std::size_t g = used; g < groups; ++g) {
    std::byte* group = moved.get() + g * stride_;
    std::memset(group, 0, chunks_ * chunk_bytes);
    auto* tail = new (group + chunks_ * chunk_bytes) GroupTail{};
    tail->scale.fill(no_row);
    tail->ids.fill(-1);
    if (!coding_.alone()) new (group + chunks_ * chunk_bytes + sizeof(GroupTail)) GroupErrors{};
  }
  data_ = std::move(moved);
  capacity_ = groups;
}

std::size_t CodeBlock::new_slot(Index id) {
  if (size_ == capacity_ * group_rows) reserve(size_ + size_ / 16 + 1);
  const std::size_t slot = size_++;
  tail_of(data_.get() + slot / group_rows * stride_).ids[slot % group_rows] = id;
  return slot;
}

void CodeBlock::append(Index id, DenseRow w, Isa isa) { replace(new_slot(id), w, isa); }

void CodeBlock::replace(std::size_t slot, DenseRow w, Isa isa) {
  std::byte* group = data_.get() + slot / group_rows * stride_;
  GroupTail& tail = tail_of(group);
  const std::size_t lane = slot % group_rows;
  std::vector<std::int8_t> bytes(chunks_ * coding_.dims_of_chunk());
  std::vector<float> rotated;
  if (coding_.rotation) {
    rotated.assign(w.begin(), w.end());
    run_with(isa, [&] { coding_.rotation->apply(rotated); });
    w = rotated;
  }
  run_with(isa, [&] {
    const double length = norm_of(w);
    const Coded coded = coding_.bits == 8 ? code(w, widened(narrowed_up(largest_of(w) / most)), most, bytes.data())
                                          : code_by_levels(w, length, bytes.data());
    tail.scale[lane] = narrowed(coded.scale);
    tail.norm[lane] = rounded_up(coding_.alone() ? coded.norm : length);
    if (!coding_.alone()) errors_of(group)->error[lane] = rounded_up(coded.error);
    std::byte* out = group + lane * chunk_dims;
    const std::int8_t* from = bytes.data();
    if (coding_.bits == 8) {
      for (std::size_t c = 0; c < chunks_; ++c, out += chunk_bytes, from += chunk_dims) {
        for (std::size_t l = 0; l < chunk_dims; ++l) out[l] = static_cast<std::byte>(from[l] + 128);
      }
      return;
    }
    for (std::size_t c = 0; c < chunks_; ++c, out += chunk_bytes, from += 2 * chunk_dims) {
      for (std::size_t l = 0; l < chunk_dims; ++l) {
        out[l] = static_cast<std::byte>(number_of_level(from[l]) + 16 * number_of_level(from[l + chunk_dims]));
      }
    }
  });
}

void CodeBlock::decode(std::size_t slot, std::span<float> w, bool is_rotated) const {
  const std::byte* group = this->group(slot / group_rows);
  const std::size_t lane = slot % group_rows, dims = coding_.dims_of_chunk();
  const float scale = widened(tail(slot / group_rows).scale[lane]);
  for (std::size_t j = 0; j < w.size(); ++j) {
    const auto byte = std::to_integer<int>(group[(j / dims * group_rows + lane) * chunk_dims + j % chunk_dims]);
    const int upper = j % dims < chunk_dims ? byte % 16 : byte / 16;
    w[j] = scale * static_cast<float>(coding_.bits == 8 ? byte - 128 : levels[static_cast<std::size_t>(upper)]);
  }
  if (coding_.rotation && !is_rotated) coding_.rotation->undo(w);
}

void CodeBlock::write(std::size_t slot, std::byte* code) const {
  const std::byte* from = group(slot / group_rows) + slot % group_rows * chunk_dims;
  for (std::size_t c = 0; c < chunks_; ++c, code += chunk_dims) std::memcpy(code, from + c * chunk_bytes, chunk_dims);
  std::memcpy(code, &tail(slot / group_rows).scale[slot % group_rows], 2);
}

void CodeBlock::append(Index id, const std::byte* code, Isa isa) {
  const std::size_t slot = new_slot(id);
  std::byte* to = data_.get() + slot / group_rows * stride_;
  GroupTail& tail = tail_of(to);
  for (std::size_t c = 0; c < chunks_; ++c, code += chunk_dims) {
    std::memcpy(to + c * chunk_bytes + slot % group_rows * chunk_dims, code, chunk_dims);
  }
  std::memcpy(&tail.scale[slot % group_rows], code, 2);
  std::vector<float> w(coding_.n_features);
  decode(slot, w, true);
  tail.norm[slot % group_rows] = rounded_up(norm(w, isa));
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
    if (!coding_.alone()) errors_of(to)->error[a] = errors_of(from)->error[b];
    to_tail.norm[a] = from_tail.norm[b];
    to_tail.ids[a] = from_tail.ids[b];
  }
  from_tail.scale[b] = no_row;
  from_tail.ids[b] = -1;
  const Index moved = slot == last ? -1 : to_tail.ids[a];
  reserve(size_);
  return moved;
}

}  // namespace manyclass
