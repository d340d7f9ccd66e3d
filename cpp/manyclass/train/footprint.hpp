// The bytes that a training on the parts of a stream takes, and how many rows and features there is room for.
//
//   bytes = copies * 4 * (features * row of W, and of embeddings) + 64 * features + 64 * classes       the model
//         + rows * (3 * window * row of X * 1.5 + 64 * stored values of a row + 128)                   the windows
//         + 128 MiB                                                                                     all else
//
// Of what each term stands for see python/manyclass/classifiers/memory.py.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace manyclass {

struct Footprint {
  std::int64_t n_features = 0, n_classes = 0;
  std::int64_t copies = 2;            // of the model
  std::optional<std::int64_t> dim{};  // length of embeddings; none: a linear model
  double row = 0, stored = 0;         // bytes and stored values of a row of X and its labels, in the mean
  std::int64_t window = 1;            // parts that are read at once

  static constexpr std::int64_t enough_rows = 1 << 14, least_rows = 1 << 8;  // of a part

  double of_model() const;
  // Of each row of a part.
  double of_row() const;
  // All of them, with parts of so many rows.
  double total(std::int64_t rows) const;
  // Below which nothing can be trained: few hashed features, and parts of so many rows.
  double least(std::int64_t rows) const;
  // The rows of a part that there is room for; none or less: the model alone is too large.
  std::int64_t rows_within(double n_bytes) const;
  // How many hashed features there is room for beside windows, of parts of so many rows at least.
  std::int64_t features_within(double n_bytes, std::int64_t rows) const;
  // The same with another number of features.
  Footprint with_features(std::int64_t n) const;
  // The bytes that are needed for parts of at most so many rows.
  double needed(std::int64_t rows, bool may_hash) const;
  // The rows of a part, at most so many, and how many features there are to be after hashing, if they are to be hashed:
  // where the model leaves no room for enough rows, and `may_hash`. Nothing where there is too little memory.
  using Fit = std::pair<std::int64_t, std::optional<std::int64_t>>;
  std::optional<Fit> within(double n_bytes, std::int64_t rows, bool may_hash) const;
};

}  // namespace manyclass
