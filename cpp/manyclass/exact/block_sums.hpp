// Log-sums of blocks of classes, which rows keep (see block_steps.hpp): normalisers by all blocks, and the best
// classes.
#pragma once

#include <cstddef>
#include <span>

#include "manyclass/core/types.hpp"

namespace manyclass {

// l, (N, n_blocks).
struct BlockSums {
  std::span<double> log_sums;
  std::size_t n_blocks = 0;

  std::size_t size() const { return n_blocks == 0 ? 0 : log_sums.size() / n_blocks; }
};

// Writes the log-normaliser of each row, v = log sum_b e^{l_b}, and that of the blocks but one. Functions throw
// std::invalid_argument where sizes do not fit.
void block_normalizers(const BlockSums& sums, std::size_t number, std::span<double> v, std::span<double> elsewhere);

// Of rows whose v has moved from `before`, the log-sum of one block becomes what is left of v without the others, 0
// where that is nothing, which is minus infinity in logarithms.
void take_normalizers(std::span<const double> before, std::span<const double> v, std::span<const double> elsewhere,
                      std::size_t number, const BlockSums& sums);

// Of n rows, m classes that are the best ones of blocks, with their scores, and what each of the blocks, row after row,
// has summed to and has as the score of the row's label, minus infinity where it has it not.
struct BestOfBlocks {
  std::span<const Index> classes;
  std::span<const double> scores;
  std::size_t n_listed = 0;           // m
  std::span<const double> log_sums;   // (n_blocks, n)
  std::span<const double> of_labels;  // (n_blocks, n)
};

// Writes the k best classes of each row, of equals the one listed first, their log-probabilities, and the log-loss of
// its label.
void best_over_blocks(const BestOfBlocks& found, std::size_t k, std::span<Index> best, std::span<double> log_p,
                      std::span<double> losses);

}  // namespace manyclass
