// The bytes that a training on the parts of a stream takes, and how many rows and features there is room for.
//
//   bytes = copies * 4 * (features * row of W, and of embeddings) + 64 * features + 64 * classes       the model
//         + rows * (3 * window * row of X * 1.5 + 64 * stored values of a row + 128)                   the windows
//         + 128 MiB                                                                                     all else
//
// Of what each term stands for see python/manyclass/fitting/streams.py.
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
  // The bytes of the whole training where each part has `rows` rows.
  double total(std::int64_t rows) const;
  // The bytes below which nothing can be trained: few hashed features, and `rows` rows in each part.
  double least(std::int64_t rows) const;
  // The rows of a part that there is room for; none or less: the model alone is too large.
  std::int64_t rows_within(double n_bytes) const;
  // How many hashed features there is room for beside windows whose parts have at least `rows` rows.
  std::int64_t features_within(double n_bytes, std::int64_t rows) const;
  // The same with another number of features.
  Footprint with_features(std::int64_t n) const;
  // The bytes that are needed where parts have at most `rows` rows.
  double needed(std::int64_t rows, bool may_hash) const;
  // How many rows a part has, at most `rows`, and how many features are left after hashing. Features are hashed where
  // the model leaves no room for enough rows and `may_hash` allows it. Nothing is returned where there is too little
  // memory.
  using Fit = std::pair<std::int64_t, std::optional<std::int64_t>>;
  std::optional<Fit> within(double n_bytes, std::int64_t rows, bool may_hash) const;
};

}  // namespace manyclass
