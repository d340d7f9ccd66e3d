// What the first k predictions of rows are worth, and the best entries of ragged rows.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Rows of entries; those of row i are [indptr[i], indptr[i + 1]).
struct RaggedRows {
  std::span<const Offset> indptr;
  std::span<const Index> ids;

  std::size_t size() const { return indptr.size() - 1; }
  std::span<const Index> row(std::size_t i) const {
    const auto begin = static_cast<std::size_t>(indptr[i]);
    return ids.subspan(begin, static_cast<std::size_t>(indptr[i + 1]) - begin);
  }
};

// Throws std::invalid_argument unless indptr cuts the ids into rows.
void check(const RaggedRows& rows);

// Labels of rows, which ascend and are at least 0, and as many predictions for each, best first; -1 is none. Functions
// throw std::invalid_argument where sizes do not fit.
struct Ranked {
  RaggedRows labels;
  std::span<const Index> predicted;
  std::size_t width = 0;

  std::span<const Index> of(std::size_t i) const { return predicted.subspan(i * width, width); }
};

// Whether each prediction is among the labels of its row.
void label_hits(const Ranked& rows, std::span<bool> right);

// The first label that a row predicts twice, and the row; none: (-1, 0).
std::pair<Index, std::size_t> twice_predicted(std::span<const Index> predicted, std::size_t width);

// By each k the mean over rows of a measure of the first k predictions, which do not outnumber `width`: "precision":
// the share of k that is right; "recall": the share of the labels that are among them; "ndcg": the sum of 1 / log2(j +
// 1) over places j that are right, as a share of the largest there is; "reciprocal_rank": 1 / j of the first one that
// is right. A row without labels counts as 0.
std::vector<double> ranking_means(std::string_view measure, const Ranked& rows, std::span<const std::int64_t> places);

// By each k the sum of gains of right labels among the first k predictions of all rows, as a share of the largest sum
// there is; `gains` has one for each label.
std::vector<double> ranking_shares(const Ranked& rows, std::span<const std::int64_t> places,
                                   std::span<const double> gains);

// By each k how many labels of [0, n_labels) are among the first k predictions of some row.
std::vector<std::size_t> labels_covered(std::span<const Index> predicted, std::size_t width,
                                        std::span<const std::int64_t> places, std::size_t n_labels);

// Values of the predictions of each row, best first, and weights of the rows.
struct RankedValues {
  Ranked rows;
  std::span<const double> values;
  std::span<const double> weights;
};

// The value that lies below the best m predictions of all rows and above the others, m being the number of the rows'
// labels (weighted, if rows have weights); each row's first one counts as predicted, too. None where fewer predictions
// are known, or where F = 2 |right and predicted| / (|predicted| + |labels|), over all rows together, is larger with
// the first n predictions of each row.
std::optional<double> best_threshold(const RankedValues& question, std::size_t n);

// Sorts the ids of each row; returns the first id that a row has twice, and the row; none: (-1, 0).
std::pair<Index, std::size_t> sort_rows(std::span<const Offset> indptr, std::span<Index> ids);

// The ids of each row's k largest scores, best first, of equals the smallest id, and these scores; behind them -1 and
// 0. No score may be NaN.
void best_of_rows(const RaggedRows& rows, std::span<const double> scores, std::size_t k, std::span<Index> best,
                  std::span<double> values);

}  // namespace manyclass
