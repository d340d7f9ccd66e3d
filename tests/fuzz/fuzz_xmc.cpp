// Any bytes as a text of sparse data. The first byte chooses the options; the others are the text.
//
// A text is refused by std::invalid_argument that begins with its name. What is accepted has the order and the bounds
// that xmc_reader.hpp promises, is the same however it is cut into pieces and by whatever threads, and is the same
// again when it was written as a text.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "manyclass/io/xmc_reader.hpp"
#include "require.hpp"

namespace {

using namespace manyclass;

const std::string name = "file";

struct Outcome {
  std::optional<XmcData> data;
  std::string refusal;
};

Outcome read(std::span<const char> text, const XmcOptions& options, int n_threads) {
  try {
    return {read_xmc(text, name, options, n_threads), ""};
  } catch (const std::invalid_argument& error) {
    return {std::nullopt, error.what()};
  }
}

template <class T>
bool same(const Buffer<T>& a, const Buffer<T>& b) {
  return a.size == b.size && (a.size == 0 || std::memcmp(a.data.get(), b.data.get(), a.size * sizeof(T)) == 0);
}

bool same(const Outcome& a, const Outcome& b) {
  if (!a.data || !b.data) return !a.data && !b.data && a.refusal == b.refusal;
  const XmcData& p = *a.data;
  const XmcData& q = *b.data;
  return p.n_features == q.n_features && p.n_labels == q.n_labels && same(p.x_indptr, q.x_indptr) &&
         same(p.x_indices, q.x_indices) && same(p.x_data, q.x_data) && same(p.y_indptr, q.y_indptr) &&
         same(p.y_indices, q.y_indices);
}

void require_indptr(const Buffer<Offset>& indptr, std::size_t n_items) {
  REQUIRE(indptr.size >= 1);
  REQUIRE(indptr.data[0] == 0);
  for (std::size_t i = 1; i < indptr.size; ++i) REQUIRE(indptr.data[i - 1] <= indptr.data[i]);
  REQUIRE(indptr.data[indptr.size - 1] == static_cast<Offset>(n_items));
}

template <class T>
std::span<const T> row(const Buffer<Offset>& indptr, const Buffer<T>& items, std::size_t i) {
  return {items.data.get() + indptr.data[i], items.data.get() + indptr.data[i + 1]};
}

void require_rows(const XmcData& data) {
  REQUIRE(data.x_indptr.size == data.y_indptr.size);
  REQUIRE(data.x_indices.size == data.x_data.size);
  require_indptr(data.x_indptr, data.x_indices.size);
  require_indptr(data.y_indptr, data.y_indices.size);
  for (std::size_t i = 0; i + 1 < data.x_indptr.size; ++i) {
    Index last = -1;
    for (const Index feature : row(data.x_indptr, data.x_indices, i)) {
      REQUIRE(last < feature);
      last = feature;
    }
    for (const float value : row(data.x_indptr, data.x_data, i)) REQUIRE(std::isfinite(value));
    REQUIRE(last < data.n_features);
    std::set<Index> seen;
    for (const Index label : row(data.y_indptr, data.y_indices, i)) {
      REQUIRE(0 <= label && label < data.n_labels);
      REQUIRE(seen.insert(label).second);
    }
  }
}

template <class T>
void append(std::string& text, T value) {
  char digits[32];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

std::string written(const XmcData& data) {
  const std::size_t n = data.x_indptr.size - 1;
  std::string text;
  append(text, n);
  append(text += ' ', data.n_features);
  append(text += ' ', data.n_labels);
  for (std::size_t i = 0; i < n; ++i) {
    text += '\n';
    const char* before = "";
    for (const Index label : row(data.y_indptr, data.y_indices, i)) {
      append(text += before, label);
      before = ",";
    }
    const std::span<const Index> features = row(data.x_indptr, data.x_indices, i);
    const std::span<const float> values = row(data.x_indptr, data.x_data, i);
    for (std::size_t j = 0; j < features.size(); ++j) {
      append(text += ' ', features[j]);
      append(text += ':', values[j]);
    }
  }
  return text + '\n';
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const unsigned choice = *bytes;
  const std::span<const char> text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  XmcOptions options;
  if ((choice & 1) != 0) options.header = (choice & 2) != 0;
  options.zero_based = (choice & 4) == 0;
  if ((choice & 8) != 0) options.n_features = 5;
  if ((choice & 16) != 0) options.n_labels = 3;
  const Outcome whole = read(text, options, 1);
  if (whole.data) {
    require_rows(*whole.data);
  } else {
    REQUIRE(whole.refusal.starts_with(name + ":"));
  }
  if ((choice & 32) != 0) {
    // To wake a thread takes longer than all the rest, so one input in 32 has a second one.
    const bool second = (choice & 64) != 0 && size % 16 == 0;
    options.piece = 1 + static_cast<std::ptrdiff_t>(size % 13);
    REQUIRE(same(whole, read(text, options, second ? 2 : 1)));
  }
  if (whole.data && (choice & 128) != 0) {
    XmcOptions own;
    own.header = true;
    REQUIRE(same(whole, read(written(*whole.data), own, 1)));
  }
  return 0;
}
