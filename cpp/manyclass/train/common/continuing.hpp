// What a training that goes on begins at: sums of squares of features, intercepts of new classes, the sizes of steps,
// and what the rows of a stream carry from pass to pass.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/core/csr.hpp"

namespace manyclass {

// Sums over weighted points of the squares of each feature, then the sum of the weights; no weights: all are 1.
std::vector<double> squares_of_features(const AnyData& x, std::span<const double> weights);

// The same sums with one number for all features, the mean over the features that rows have.
std::vector<double> alike(std::span<const double> squares);

// Writes the intercepts of classes that are not in `position`, on the line that fits those of the others best over the
// logarithms of their counts. `before` are counts before the call, `now` those with its rows, which are above 0.
//
// Intercepts of unbiased shares have a slope of 1; those of rare classes lag behind in a stream of many classes, and
// have been .5.
void set_new_intercepts(std::span<const std::int64_t> position, std::span<const double> before,
                        std::span<const double> now, std::span<float> intercept);

// Step sizes of the passes of a call, that fall by a factor after each.
struct FallingSteps {
  double factor;  // of the step size of the first pass
  double decay;
};

// The steps that fall from a first to a last size within `n_passes`; a pass has the size of its middle.
FallingSteps steps_between(double first, double last, int n_passes);

// Those that fall as steps by curvature do, alike for all weights of a pass: 1 / (1 + per_sum S), where S grows from
// the mean of `before` by that of `now` in each pass; see squares_of_features.
FallingSteps steps_by_sums(std::span<const double> before, std::span<const double> now, double per_sum, int n_passes);

// Those that fall no lower than `least`, from a schedule's first and last step size; none where they do not anyway.
std::optional<std::pair<double, double>> steps_kept_above(double first, double last, double least, int n_passes);

// What the rows of a stream carry from pass to pass, by their numbers, in single precision: one number or two. NaN
// marks rows that were not visited yet.
class CarriedRows {
 public:
  CarriedRows(std::size_t n_rows, std::size_t n_numbers);

  // What these rows carry, one list for each number; none where one of them is visited for the first time. Makes room
  // for rows with larger numbers than there were.
  std::vector<std::vector<double>> of(std::span<const std::int64_t> rows);
  void put(std::span<const std::int64_t> rows, std::size_t which, std::span<const double> values);

 private:
  std::vector<std::vector<float>> numbers_;
};

}  // namespace manyclass
