// The scales of features: training sees (x - shift) / scale, and its W is folded back so that the model takes x.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"

namespace manyclass {

// What is taken off features, and what they are divided by: above 0, and infinite for features too small for float.
struct FeatureScaling {
  std::vector<double> shift, scale;
};

// Measures data whose rows have weights of mean 1 (empty: 1 each). Of a dense feature it takes the mean, where it is to
// be centred, and the standard deviation; of features of mostly zeros the root mean square of the rest, without a
// shift. All sparse features count as such. Where these differ by a factor of at most 100, all are divided instead by
// the power of two, which rounds nothing, that brings the root mean square of the rows' lengths to 1 to 8.
FeatureScaling scaling_of(const AnyData& x, std::span<const double> row_weights, bool centre);

// Measures the first rows of a sparse stream, of which a few heavy ones and features that are not there tell nothing:
// features differ where nine tenths of those that are there do, those that are not have the median scale, and the
// median of the rows' lengths counts.
FeatureScaling scaling_of_first_rows(const CsrView& x);

struct ScalingView {
  std::span<const double> shift, scale;
};

// Writes the features that training sees: of sparse data the stored values, which take no shift.
void scale_features(const AnyData& x, const ScalingView& scaling, std::span<float> out);

// Weights of a linear model: rows of features with a column for each class and padding, or rows of classes.
struct LinearWeights {
  std::span<float> matrix;
  std::size_t stride;
  std::span<float> intercept;
  bool by_feature;
};

// Turns weights of scaled features into those of x that give the same scores, in place. What is beyond single precision
// is the largest number there.
void fold(const ScalingView& scaling, const LinearWeights& weights);

// Turns weights of x into those of scaled features, in place.
void unfold(const ScalingView& scaling, const LinearWeights& weights);

}  // namespace manyclass
