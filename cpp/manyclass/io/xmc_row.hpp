// One line of a file in the XMC repository's text form: "l1,l2,... j:v j:v ...".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// What is wrong, and at which character of the text.
struct Fault {
  const char* at;
  std::string what;
};

// Features lie in [first, limit) and labels in [0, limit); `first` is subtracted from a feature.
struct XmcLimits {
  Index first_feature = 0;
  Offset feature_limit = 0;
  Offset label_limit = 0;
};

// The arrays that rows are appended to. They must have room for one label more than the line has commas, and for one
// feature per colon.
struct XmcRowOut {
  Index* labels;
  Index* features;
  float* values;
};

enum class LineKind { row, blank, comment };

// Parses one line. Labels, which may be missing, are separated by single commas and keep the order of the line.
// Features are separated by blanks and come out in increasing order. '#' begins a comment. The parser refuses a label
// or a feature that occurs twice in a line, and svmlight's "qid:".
class XmcRowParser {
 public:
  explicit XmcRowParser(XmcLimits limits) : limits_(limits) {}

  // Appends the row of [begin, end), a line without its line end, and moves `out` behind it. Throws Fault.
  LineKind parse(const char* begin, const char* end, XmcRowOut& out);

 private:
  const char* read_labels(const char* p, const char* end, Index*& out);
  const char* read_feature(const char* p, const char* end, Index& feature, float& value) const;
  void sort_features(const char* begin, const char* end, Index* features, float* values, std::size_t n);
  void refuse_repeated_label(const char* begin, const char* end, const Index* labels, std::size_t n);

  XmcLimits limits_;
  std::vector<std::pair<Index, float>> row_;  // scratch memory for a row that must be sorted
  std::vector<Index> sorted_;
};

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

inline const char* skip_blanks(const char* p, const char* end) {
  while (p != end && is_blank(*p)) ++p;
  return p;
}

// The text from p to the next blank, quoted for a message: "'x'", or "the end of the line".
std::string found(const char* p, const char* end);

// Reads digits from p and returns where they stop, which is p if there are none. A value beyond 2^53 comes out as some
// number beyond 2^53.
const char* read_digits(const char* p, const char* end, Offset& value);

}  // namespace manyclass
