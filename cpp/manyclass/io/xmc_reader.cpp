// Reading of whole files in the XMC text form, in parallel; xmc_reader.hpp describes the form.
#include "manyclass/io/xmc_reader.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/io/xmc_row.hpp"

namespace manyclass {

namespace {

constexpr Offset max_index = std::numeric_limits<Index>::max();

struct Counts {
  std::size_t lines = 0;
  std::size_t labels = 0;
  std::size_t features = 0;
};

// A piece of the text that begins at a line's first character and ends behind a line's end.
struct Chunk {
  const char* begin = nullptr;
  const char* end = nullptr;
  Counts at;    // where its arrays begin: the sum of `room` over the chunks before it
  Counts room;  // upper bounds of what it holds
  Counts held;  // what it holds; `lines` counts its rows
  Index largest_feature = -1;
  Index largest_label = -1;
  std::optional<Fault> fault;
  std::size_t fault_line = 0;  // line of the fault in this chunk, from 0
  const char* fault_begin = nullptr;
  std::size_t n_blank_first = 0;  // blank lines at its beginning
  std::size_t n_blank_last = 0;   // and at its end
  bool all_blank = true;
};

// Where a line ends, and where the next one begins.
struct Line {
  const char* end;
  const char* next;
};

Line line_at(const char* p, const char* text_end) {
  const auto* newline = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(text_end - p)));
  const char* end = newline != nullptr ? newline : text_end;
  const char* const next = newline != nullptr ? newline + 1 : text_end;
  if (end != p && end[-1] == '\r') --end;
  return {end, next};
}

bool looks_like_header(const char* p, const char* end) {
  for (int i = 0; i < 3; ++i) {
    Offset ignored = 0;
    const char* const stop = read_digits(p, end, ignored);
    if (stop == p || (stop != end && !is_blank(*stop))) return false;
    p = skip_blanks(stop, end);
  }
  return p == end;
}

XmcHeader parse_header(const char* p, const char* end) {
  const std::string expected = "expected the header 'N D L', three integers, found ";
  Offset sizes[3];
  for (Offset& size : sizes) {
    p = skip_blanks(p, end);
    const char* const stop = read_digits(p, end, size);
    if (stop == p || (stop != end && !is_blank(*stop))) throw Fault{p, expected + found(p, end)};
    if (size > max_index) {
      throw Fault{p, "the header's size " + std::string(p, stop) + " is beyond " + std::to_string(max_index)};
    }
    p = stop;
  }
  p = skip_blanks(p, end);
  if (p != end) throw Fault{p, expected + found(p, end) + " after them"};
  return {sizes[0], sizes[1], sizes[2]};
}

// Cuts the text at line ends into chunks of about `size` characters.
std::vector<Chunk> cut(const char* begin, const char* end, std::ptrdiff_t size) {
  std::vector<Chunk> chunks;
  while (begin != end) {
    const char* const target = begin + std::min(size, end - begin);
    Chunk& chunk = chunks.emplace_back();
    chunk.begin = begin;
    chunk.end = begin = line_at(target - 1, end).next;
  }
  return chunks;
}

// Bounds what a chunk holds by counting marks: a line has at most one label more than commas, and as many features as
// colons.
Counts count(const char* p, const char* end) {
  std::size_t lines = end[-1] != '\n';
  std::size_t commas = 0;
  std::size_t colons = 0;
  while (p != end) {
    // Counts of up to 255 characters fit into bytes, so that one vector instruction counts 16 characters.
    const char* const stop = p + std::min<std::ptrdiff_t>(255, end - p);
    unsigned char n_lines = 0;
    unsigned char n_commas = 0;
    unsigned char n_colons = 0;
    for (; p != stop; ++p) {
      n_lines = static_cast<unsigned char>(n_lines + (*p == '\n'));
      n_commas = static_cast<unsigned char>(n_commas + (*p == ','));
      n_colons = static_cast<unsigned char>(n_colons + (*p == ':'));
    }
    lines += n_lines;
    commas += n_commas;
    colons += n_colons;
  }
  return {lines, commas + lines, colons};
}

template <class T>
Buffer<T> make_buffer(std::size_t size) {
  return {std::make_unique_for_overwrite<T[]>(size), size};
}

// Writes the chunk's rows where `at` says. The indptr entries count from the chunk's beginning.
void fill(Chunk& chunk, const XmcLimits& limits, XmcData& to) {
  XmcRowParser parser(limits);
  Index* const labels = to.y_indices.data.get() + chunk.at.labels;
  Index* const features = to.x_indices.data.get() + chunk.at.features;
  XmcRowOut out{labels, features, to.x_data.data.get() + chunk.at.features};
  Offset* x_end = to.x_indptr.data.get() + chunk.at.lines + 1;
  Offset* y_end = to.y_indptr.data.get() + chunk.at.lines + 1;
  std::size_t line_number = 0;
  for (const char* p = chunk.begin; p != chunk.end; ++line_number) {
    const Line line = line_at(p, chunk.end);
    LineKind kind = LineKind::row;
    try {
      kind = parser.parse(p, line.end, out);
    } catch (Fault& fault) {
      chunk.fault = std::move(fault);
      chunk.fault_line = line_number;
      chunk.fault_begin = p;
      return;
    }
    p = line.next;
    chunk.n_blank_last = kind == LineKind::blank ? chunk.n_blank_last + 1 : 0;
    chunk.all_blank &= kind == LineKind::blank;
    if (chunk.all_blank) ++chunk.n_blank_first;
    if (chunk.n_blank_last > most_blank_lines) {
      chunk.fault_line = line_number;
      return;
    }
    if (kind == LineKind::comment) continue;
    *x_end++ = out.features - features;
    *y_end++ = out.labels - labels;
    ++chunk.held.lines;
  }
  chunk.held.features = static_cast<std::size_t>(out.features - features);
  chunk.held.labels = static_cast<std::size_t>(out.labels - labels);
  if (out.features != features) chunk.largest_feature = *std::max_element(features, out.features);
  if (out.labels != labels) chunk.largest_label = *std::max_element(labels, out.labels);
}

template <class T>
void move_down(Buffer<T>& buffer, std::size_t from, std::size_t to, std::size_t n) {
  if (from != to) std::memmove(buffer.data.get() + to, buffer.data.get() + from, n * sizeof(T));
}

// Closes the gaps between the chunks, which are there because bounds were reserved.
void close_up(const std::vector<Chunk>& chunks, XmcData& data) {
  Counts total;
  data.x_indptr.data[0] = 0;
  data.y_indptr.data[0] = 0;
  for (const Chunk& chunk : chunks) {
    move_down(data.y_indices, chunk.at.labels, total.labels, chunk.held.labels);
    move_down(data.x_indices, chunk.at.features, total.features, chunk.held.features);
    move_down(data.x_data, chunk.at.features, total.features, chunk.held.features);
    for (std::size_t i = 1; i <= chunk.held.lines; ++i) {
      data.x_indptr.data[total.lines + i] =
          data.x_indptr.data[chunk.at.lines + i] + static_cast<Offset>(total.features);
      data.y_indptr.data[total.lines + i] = data.y_indptr.data[chunk.at.lines + i] + static_cast<Offset>(total.labels);
    }
    total.lines += chunk.held.lines;
    total.labels += chunk.held.labels;
    total.features += chunk.held.features;
  }
  data.x_indptr.size = data.y_indptr.size = total.lines + 1;
  data.x_indices.size = data.x_data.size = total.features;
  data.y_indices.size = total.labels;
}

// Blank lines behind the last promised row are the file's end, not rows.
void drop_blank_tail(XmcData& data, std::size_t n_rows) {
  const auto last_row_is_empty = [&] {
    const std::size_t n = data.x_indptr.size;
    return data.x_indptr.data[n - 1] == data.x_indptr.data[n - 2] &&
           data.y_indptr.data[n - 1] == data.y_indptr.data[n - 2];
  };
  while (data.x_indptr.size > n_rows + 1 && last_row_is_empty()) {
    --data.x_indptr.size;
    --data.y_indptr.size;
  }
}

std::invalid_argument error_at(const std::string& name, std::size_t line, const char* line_begin, const Fault& fault) {
  return std::invalid_argument(name + ":" + std::to_string(line) + ":" + std::to_string(fault.at - line_begin + 1) +
                               ": " + fault.what);
}

// The lines of [begin, end), which come behind `n_before` others.
struct Lines {
  const char* begin;
  const char* end;
  std::size_t n_before;
};

struct Largest {
  Index feature = -1, label = -1;
};

XmcLimits limits_of(const XmcOptions& options, const std::optional<XmcHeader>& header) {
  const Index base = options.zero_based ? 0 : 1;
  return {.first_feature = base,
          .feature_limit = base + (options.n_features ? *options.n_features
                                   : header           ? header->n_features
                                                      : max_index),
          .label_limit = options.n_labels ? *options.n_labels
                         : header         ? header->n_labels
                                          : max_index};
}

// Throws where too many lines are blank, one after the other; `n_blank` of them stand before the chunks and become
// those at the end.
void check_blank_lines(const std::vector<Chunk>& chunks, const Lines& lines, const std::string& name,
                       std::size_t& n_blank) {
  for (const Chunk& chunk : chunks) {
    n_blank += chunk.n_blank_first;
    const std::size_t begin = lines.n_before + chunk.at.lines + 1;
    if (n_blank > most_blank_lines) refuse_blank_lines(name, begin + most_blank_lines + chunk.n_blank_first - n_blank);
    if (chunk.n_blank_last > most_blank_lines) refuse_blank_lines(name, begin + chunk.fault_line);
    if (!chunk.all_blank) n_blank = chunk.n_blank_last;
  }
}

// Parses lines into arrays, without the numbers of columns.
XmcData parse_lines(const Lines& lines, const std::string& name, const XmcLimits& limits, std::ptrdiff_t piece,
                    int n_threads, Largest& largest, std::size_t& n_blank) {
  std::vector<Chunk> chunks = cut(lines.begin, lines.end, piece);
  parallel_for(n_threads, chunks.size(),
               [&](std::size_t c) { chunks[c].room = count(chunks[c].begin, chunks[c].end); });
  Counts room;
  for (Chunk& chunk : chunks) {
    chunk.at = room;
    room.lines += chunk.room.lines;
    room.labels += chunk.room.labels;
    room.features += chunk.room.features;
  }

  XmcData data;
  data.x_indptr = make_buffer<Offset>(room.lines + 1);
  data.y_indptr = make_buffer<Offset>(room.lines + 1);
  data.x_indices = make_buffer<Index>(room.features);
  data.x_data = make_buffer<float>(room.features);
  data.y_indices = make_buffer<Index>(room.labels);

  // Only chunks behind a known fault are left out, so the first faulty one is found by any number of threads.
  std::atomic<std::size_t> first_fault{chunks.size()};
  parallel_for(n_threads, chunks.size(), [&](std::size_t c) {
    if (c > first_fault) return;
    fill(chunks[c], limits, data);
    if (!chunks[c].fault) return;
    std::size_t known = first_fault;
    while (c < known && !first_fault.compare_exchange_weak(known, c)) {
    }
  });
  if (first_fault < chunks.size()) {
    const Chunk& chunk = chunks[first_fault];
    const Fault& fault = chunk.fault.value();
    throw error_at(name, lines.n_before + chunk.at.lines + chunk.fault_line + 1, chunk.fault_begin, fault);
  }
  check_blank_lines(chunks, lines, name, n_blank);
  close_up(chunks, data);
  for (const Chunk& chunk : chunks) {
    largest.feature = std::max(largest.feature, chunk.largest_feature);
    largest.label = std::max(largest.label, chunk.largest_label);
  }
  return data;
}

Offset n_rows_of(const XmcData& data) { return static_cast<Offset>(data.x_indptr.size) - 1; }

// The numbers of columns: those that are told, or the largest number found + 1.
void set_columns(const XmcOptions& options, const std::optional<XmcHeader>& header, const XmcLimits& limits,
                 const Largest& largest, Index& n_features, Index& n_labels) {
  const bool has_features = options.n_features || header, has_labels = options.n_labels || header;
  n_features = has_features ? static_cast<Index>(limits.feature_limit - limits.first_feature) : largest.feature + 1;
  n_labels = has_labels ? static_cast<Index>(limits.label_limit) : largest.label + 1;
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw std::invalid_argument(name + ": " + what);
}

void refuse_too_few(const std::string& name, Offset promised, Offset n_rows) {
  refuse(name, "the header promises " + std::to_string(promised) + " rows, the file has " + std::to_string(n_rows));
}

}  // namespace

void refuse_blank_lines(const std::string& name, std::size_t line) {
  throw std::invalid_argument(name + ":" + std::to_string(line) + ": more than " + std::to_string(most_blank_lines) +
                              " lines before this one are blank");
}

std::optional<XmcHeader> xmc_header(std::span<const char> text, const std::string& name, std::optional<bool> header) {
  const char* const begin = text.data();
  const Line first = text.empty() ? Line{begin, begin} : line_at(begin, begin + text.size());
  if (!header.value_or(looks_like_header(begin, first.end))) return std::nullopt;
  try {
    return parse_header(begin, first.end);
  } catch (const Fault& fault) {
    throw error_at(name, 1, begin, fault);
  }
}

XmcData read_xmc(std::span<const char> text, const std::string& name, const XmcOptions& options, int n_threads) {
  const char* begin = text.data();
  const char* const end = begin + text.size();
  if (text.empty()) refuse(name, "the file is empty");
  const std::optional<XmcHeader> header = xmc_header(text, name, options.header);
  if (header) begin = line_at(begin, end).next;

  const XmcLimits limits = limits_of(options, header);
  Largest largest;
  std::size_t n_blank = 0;
  XmcData data = parse_lines({begin, end, header ? 1U : 0U}, name, limits, options.piece, n_threads, largest, n_blank);
  if (header) drop_blank_tail(data, static_cast<std::size_t>(header->n_rows));
  const Offset n_rows = n_rows_of(data);
  if (header && n_rows != header->n_rows) refuse_too_few(name, header->n_rows, n_rows);
  if (!header && n_rows == 0) refuse(name, "the file has no rows");
  if (n_rows > max_index) refuse(name, "the file has more than " + std::to_string(max_index) + " rows");
  set_columns(options, header, limits, largest, data.n_features, data.n_labels);
  return data;
}

XmcData XmcBlocks::add(std::span<const char> piece) {
  const bool is_last = piece.empty();
  text_.append(piece.begin(), piece.end());
  // The last line of the text need not have an end.
  std::size_t size = is_last ? text_.size() : text_.rfind('\n') + 1;
  if (text_.size() - size > longest_line_) {
    refuse(name_,
           "a line behind line " +
               std::to_string(n_lines_ + static_cast<std::size_t>(std::count(text_.begin(), text_.end(), '\n'))) +
               " is longer than " + std::to_string(longest_line_) + " bytes");
  }
  const char* begin = text_.data();
  if (!has_begun_ && (size > 0 || is_last)) {
    has_begun_ = true;
    header_ = xmc_header({begin, size}, name_, options_.header);
    if (header_) {
      begin = line_at(begin, begin + size).next;
      n_lines_ = 1;
    }
  }
  const XmcLimits limits = limits_of(options_, header_);
  const char* const end = text_.data() + size;
  Largest largest{options_.n_features || header_ ? -1 : widths_.features - 1,
                  options_.n_labels || header_ ? -1 : widths_.labels - 1};
  XmcData data = parse_lines({begin, end, n_lines_}, name_, limits, options_.piece, n_threads_, largest, n_blank_);
  if (header_) {
    const Offset n_left = header_->n_rows - n_rows_;
    drop_blank_tail(data, static_cast<std::size_t>(n_left));
    if (n_rows_of(data) > n_left) refuse(name_, "the file has more rows than its header promises");
  }
  n_lines_ += static_cast<std::size_t>(std::count(begin, end, '\n'));
  n_rows_ += n_rows_of(data);
  text_.erase(0, size);
  if (is_last && header_ && n_rows_ < header_->n_rows) refuse_too_few(name_, header_->n_rows, n_rows_);
  set_columns(options_, header_, limits, largest, widths_.features, widths_.labels);
  set_columns(options_, header_, limits, {max_index - 1, max_index - 1}, data.n_features, data.n_labels);
  return data;
}

}  // namespace manyclass
