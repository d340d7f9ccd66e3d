// What is seen of predictions in a picture: how often those of a confidence are right, and which classes are confused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Predictions of neighbouring confidence.
struct ReliabilityBin {
  double confidence = 0;     // in the mean
  double share = 0;          // of them that are right
  double low = 0, high = 0;  // Wilson's interval of the share (JASA 1927), at a level of 95 %
};

// Bins of equal size in the order of confidence, the first ones with one prediction more where they do not come out
// even. Throws std::invalid_argument unless there are from 1 to n of them.
std::vector<ReliabilityBin> reliability_bins(std::span<const double> confidence, std::span<const std::uint8_t> right,
                                             std::size_t n_bins);

// At most `most` classes, of the pairs of a label and another prediction that have the most rows, in increasing order.
// Equally frequent pairs are taken in their order, and a pair for which there is no room is passed over.
std::vector<Offset> most_confused(std::span<const Offset> labels, std::span<const Offset> predictions,
                                  std::size_t most);

}  // namespace manyclass
