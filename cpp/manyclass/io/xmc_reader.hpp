// Reading of text files in the form of the XMC repository, or of svmlight, into two CSR matrices, in parallel.
//
//   [N D L]                          optional header: numbers of rows, features and labels
//   l1,l2,... j:v j:v ...            a row: labels, then features with their values
//
// Lines end with "\n" or "\r\n"; the last one need not. A line that holds only a comment (# ...) is skipped. With a
// header a blank line is a row without labels and features. Without one it is skipped, as in svmlight files.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "manyclass/core/types.hpp"

namespace manyclass {

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

}  // namespace manyclass
