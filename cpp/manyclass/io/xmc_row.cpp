// Parsing of one row of the XMC text form, which xmc_row.hpp describes.
#include "manyclass/io/xmc_row.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <tuple>

#include "manyclass/io/decimal.hpp"

namespace manyclass {

namespace {

bool ends_token(const char* p, const char* end) { return p == end || is_blank(*p) || *p == '#'; }

std::string quoted(const char* p, const char* end) {
  constexpr std::ptrdiff_t longest = 24;
  std::string text = "'";
  const char* const stop = p + std::min(longest, end - p);
  for (; p != stop; ++p) {
    const auto c = static_cast<unsigned char>(*p);
    if (c >= 0x20 && c < 0x7f) {
      text += *p;
    } else {
      char escape[5];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(c));
      text += escape;
    }
  }
  return text + (p == end ? "'" : "...'");
}

std::string outside(const char* what, const char* p, const char* end, Offset first, Offset limit) {
  return std::string(what) + " " + std::string(p, end) + " is outside [" + std::to_string(first) + ", " +
         std::to_string(limit) + ")";
}

// The position of the n-th `mark` of the text, counted from 0. The text must have that many.
const char* find_nth(const char* p, const char* end, char mark, std::size_t n) {
  for (;; ++p) {
    p = static_cast<const char*>(std::memchr(p, mark, static_cast<std::size_t>(end - p)));
    if (n-- == 0) return p;
  }
}

// The first position at which `repeated` occurs for the second time.
std::size_t second_occurrence(const Index* items, Index repeated) {
  std::size_t i = 0;
  while (items[i] != repeated) ++i;
  do ++i;
  while (items[i] != repeated);
  return i;
}

}  // namespace

std::string found(const char* p, const char* end) {
  if (p == end) return "the end of the line";
  const char* stop = p;
  while (stop != end && !is_blank(*stop)) ++stop;
  return quoted(p, std::max(stop, p + 1));
}

const char* read_digits(const char* p, const char* end, Offset& value) {
  constexpr Offset cap = Offset{1} << 53;
  value = 0;
  for (; p != end && is_digit(*p); ++p) {
    if (value < cap) value = 10 * value + (*p - '0');
  }
  return p;
}

LineKind XmcRowParser::parse(const char* begin, const char* end, XmcRowOut& out) {
  const char* p = skip_blanks(begin, end);
  if (p == end) return LineKind::blank;
  if (*p == '#') return LineKind::comment;

  if (p == begin) p = read_labels(p, end, out.labels);

  Index* const features = out.features;
  float* const values = out.values;
  bool increasing = true;
  Index last = -1;
  for (p = skip_blanks(p, end); !ends_token(p, end); p = skip_blanks(p, end)) {
    p = read_feature(p, end, *out.features, *out.values);
    increasing &= *out.features > last;
    last = *out.features++;
    ++out.values;
  }
  if (!increasing) {
    sort_features(begin, end, features, values, static_cast<std::size_t>(out.features - features));
  }
  return LineKind::row;
}

// Reads labels from the first character of the line and returns where they stop. That is the beginning where the line
// begins with a feature.
const char* XmcRowParser::read_labels(const char* const begin, const char* end, Index*& out) {
  Index* const labels = out;
  bool increasing = true;
  for (const char* p = begin;; ++p) {
    Offset label = 0;
    const char* const stop = read_digits(p, end, label);
    if (stop == p) {
      if (stop != end && *p == '-') {
        throw Fault{p, "labels must be class numbers >= 0, found " + found(p, end)};
      }
      throw Fault{p, std::string("expected a label") + (p == begin ? " or a blank" : " after ','") + ", found " +
                         found(p, end)};
    }
    const bool more = stop != end && *stop == ',';
    if (p == begin && stop != end && *stop == ':') return begin;
    if (!more && !ends_token(stop, end)) {
      throw Fault{stop, "expected ',' or a blank after a label, found " + found(stop, end)};
    }
    if (label >= limits_.label_limit) throw Fault{p, outside("label", p, stop, 0, limits_.label_limit)};
    increasing &= out == labels || label > out[-1];
    *out++ = static_cast<Index>(label);
    p = stop;
    if (!more) {
      if (!increasing) refuse_repeated_label(begin, end, labels, static_cast<std::size_t>(out - labels));
      return p;
    }
  }
}

const char* XmcRowParser::read_feature(const char* p, const char* end, Index& feature, float& value) const {
  Offset number = 0;
  const char* const colon = read_digits(p, end, number);
  if (colon == p) {
    constexpr char qid[] = "qid:";
    if (end - p >= 4 && std::equal(qid, qid + 4, p)) {
      throw Fault{p, "'qid:' marks a ranking query, which this reader does not support"};
    }
    throw Fault{p, "expected a feature index, found " + found(p, end)};
  }
  if (colon == end || *colon != ':') {
    throw Fault{colon, "expected ':' after a feature index, found " + found(colon, end)};
  }
  if (number < limits_.first_feature || number >= limits_.feature_limit) {
    throw Fault{p, outside("feature", p, colon, limits_.first_feature, limits_.feature_limit)};
  }
  const Decimal decimal = read_decimal(colon + 1, end);
  if (decimal.end == nullptr) {
    throw Fault{colon + 1, "expected a finite decimal number, found " + found(colon + 1, end)};
  }
  if (decimal.overflow) {
    throw Fault{colon + 1, "the value " + quoted(colon + 1, decimal.end) + " is beyond the range of float32"};
  }
  if (!ends_token(decimal.end, end)) {
    throw Fault{decimal.end, "expected a blank after a value, found " + found(decimal.end, end)};
  }
  feature = static_cast<Index>(number - limits_.first_feature);
  value = decimal.value;
  return decimal.end;
}

void XmcRowParser::sort_features(const char* begin, const char* end, Index* features, float* values, std::size_t n) {
  row_.clear();
  for (std::size_t i = 0; i < n; ++i) row_.emplace_back(features[i], values[i]);
  const auto before = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(row_.begin(), row_.end(), before);
  const auto repeated =
      std::adjacent_find(row_.begin(), row_.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (repeated != row_.end()) {
    const char* at = find_nth(begin, end, ':', second_occurrence(features, repeated->first));
    while (at != begin && is_digit(at[-1])) --at;
    throw Fault{
        at, "feature " + std::to_string(Offset{repeated->first} + limits_.first_feature) + " occurs twice in this row"};
  }
  for (std::size_t i = 0; i < n; ++i) std::tie(features[i], values[i]) = row_[i];
}

void XmcRowParser::refuse_repeated_label(const char* begin, const char* end, const Index* labels, std::size_t n) {
  sorted_.assign(labels, labels + n);
  std::sort(sorted_.begin(), sorted_.end());
  const auto repeated = std::adjacent_find(sorted_.begin(), sorted_.end());
  if (repeated == sorted_.end()) return;
  const char* const comma = find_nth(begin, end, ',', second_occurrence(labels, *repeated) - 1);
  throw Fault{comma + 1, "label " + std::to_string(*repeated) + " occurs twice in this row"};
}

}  // namespace manyclass
