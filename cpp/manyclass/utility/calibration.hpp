// Calibrated probabilities: the numbers of least log-loss on rows that a model was not fitted on.
//
// Of one label a row it is the temperature T that scores are divided by. The log-loss is convex in 1/T under every
// noise of the utilities with a log-concave density. Of several labels it is T and an offset c, see
// evaluate/label_odds.hpp; labels are counted by a histogram, so that the rows are scored once.
#pragma once

#include <functional>
#include <span>

#include "manyclass/core/lists.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/math/noise.hpp"

namespace manyclass {

// Temperatures outside of [1/100, 100] say that the rows are too few, or the scores all equal. The offset of margins is
// near to log K / T, which is 70 on bibtex.
inline constexpr double most_temperature = 100, most_offset = 1e4;

// Rows with their labels, whose scores are asked for some at a time.
struct HeldOutRows {
  std::size_t n_classes = 0;
  std::function<void(std::size_t first, std::span<float> scores)> score;  // of the rows from `first` on
  Excluded labels;                                                        // one or several for each row
  std::span<const double> weights;                                        // of the rows; none: all are 1
  int n_threads = 1;
  Isa isa{};

  std::size_t size() const { return labels.indptr.empty() ? 0 : labels.indptr.size() - 1; }
  double weight(std::size_t i) const { return weights.empty() ? 1 : weights[i]; }
};

struct FoundCalibration {
  double temperature = 1, offset = 0;
  double before = 0,
         after = 0;  // mean log-losses with T = 1 and c = 0 and with what was found; the sum of a row's labels
};

// Of one label a row. Throws std::invalid_argument where labels or weights do not fit the rows, as do those below.
FoundCalibration best_temperature(const HeldOutRows& rows, const NoiseKind& noise);

// Of several labels a row.
FoundCalibration best_odds(const HeldOutRows& rows);

// The mean over all classes of -log P of a label and -log(1 - P) of another class, by a calibration, T = 0 for none;
// and the mean over the labels of a row of minus the log-probability that the softmax gives them.
void label_log_losses(const HeldOutRows& rows, double temperature, double offset, std::span<double> of_classes,
                      std::span<double> of_own);

}  // namespace manyclass
