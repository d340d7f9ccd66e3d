// Reading of text files in the form of the XMC repository, or of svmlight, into two CSR matrices, in parallel.
//
//   [N D L]                          optional header: numbers of rows, features and labels
//   l1,l2,... j:v j:v ...            a row: labels, then features with their values
//
// Lines end with "\n" or "\r\n"; the last one need not. A line that holds only a comment (# ...) is skipped. A blank
// line is a row without labels and features, but for those behind the last row that a header promises.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "manyclass/core/types.hpp"

namespace manyclass {

// More blank lines, one after the other, are refused: a compressed file of a megabyte may hold a thousand million.
inline constexpr std::size_t most_blank_lines = 1'000'000;

struct XmcOptions {
  std::optional<bool> header;       // if unset, a first line of three integers is one; no row looks like that
  bool zero_based = true;           // number of the first feature: 0 or 1. Labels always count from 0
  std::optional<Index> n_features;  // D, in place of the header's or of the largest feature found + 1
  std::optional<Index> n_labels;    // L, likewise
  // Characters of the pieces that threads take: work enough to hand out, and small beside the caches.
  std::ptrdiff_t piece = 1 << 20;
};

template <class T>
struct Buffer {
  std::unique_ptr<T[]> data;
  std::size_t size = 0;
};

struct XmcData {
  Index n_features = 0;
  Index n_labels = 0;
  Buffer<Offset> x_indptr;  // N + 1
  Buffer<Index> x_indices;  // increasing in a row
  Buffer<float> x_data;
  Buffer<Offset> y_indptr;  // N + 1
  Buffer<Index> y_indices;  // in the order of the file
};

// Throws std::invalid_argument that begins with "name:line:column: " for the first bad line of the text, whatever the
// number of threads, or with "name: " if the file as a whole is wrong. Nothing is skipped silently. It takes the memory
// of the resulting arrays, and 4 bytes for each line without labels.
XmcData read_xmc(std::span<const char> text, const std::string& name, const XmcOptions& options, int n_threads);

// Throws std::invalid_argument for the line before which more lines are blank than may be.
[[noreturn]] void refuse_blank_lines(const std::string& name, std::size_t line);

struct XmcHeader {
  Offset n_rows;
  Offset n_features;
  Offset n_labels;
};

// The header that a text begins with, where it has one: see XmcOptions::header. Throws as read_xmc does.
std::optional<XmcHeader> xmc_header(std::span<const char> text, const std::string& name, std::optional<bool> header);

// Rows of a file whose text comes in pieces, as many at once as a piece has whole lines of.
class XmcBlocks {
 public:
  // A line, without its end, may have `longest_line` characters.
  XmcBlocks(std::string name, XmcOptions options, std::size_t longest_line, int n_threads)
      : name_(std::move(name)), options_(options), longest_line_(longest_line), n_threads_(n_threads) {}

  // Takes the next piece of the text, an empty one at its end, and returns the rows that have become whole. Columns
  // that nothing tells are the most that there can be. Throws as read_xmc does; a file without rows is none, but for
  // one whose header promises some.
  XmcData add(std::span<const char> piece);

  // Columns of X and Y: those that are told, or the largest number so far + 1.
  Index n_features() const { return widths_.features; }
  Index n_labels() const { return widths_.labels; }

 private:
  struct Widths {
    Index features = 0, labels = 0;
  };

  std::string name_;
  XmcOptions options_;
  std::size_t longest_line_;
  int n_threads_;
  std::string text_;  // behind the last whole line
  bool has_begun_ = false;
  std::optional<XmcHeader> header_;
  std::size_t n_lines_ = 0;  // before text_
  std::size_t n_blank_ = 0;  // of the last of these
  Offset n_rows_ = 0;
  Widths widths_;
};

}  // namespace manyclass
