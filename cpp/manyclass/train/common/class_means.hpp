// Means of classes of dense points for linear discriminant analysis: how rows deviate from them, and how they shrink.
#pragma once

#include <cstdint>
#include <span>

#include "manyclass/core/csr.hpp"

namespace manyclass {

// What is known of classes: weights of their points, the mean of all points, and means of the classes less that one, 0
// of classes without points.
struct ClassMeans {
  std::span<double> counts;  // K
  std::span<float> centre;   // D
  std::span<float> means;    // K x D
};

// Points with a label each, and their weights. Functions throw std::invalid_argument where sizes do not fit.
struct LabelledPoints {
  DenseView x;
  std::span<const Index> labels;
  std::span<const double> weights;
};

void class_means(const LabelledPoints& points, const ClassMeans& out);

// Deviations of some points from the means of their classes. Those from the mean of n rows are short by 1/n of those
// from the true mean, for which they are made up; a point that is alone in its class must not be among them.
void within_classes(const LabelledPoints& points, std::span<const std::int64_t> rows, const ClassMeans& known,
                    std::span<double> out);

// Takes means m of classes with n rows to f m, f = t / (t + 1/n), where t is the variance of means along each column,
// or along all of them, less what n rows leave by chance; and writes what they are over the mean of 1 + f/n, the
// variance of a new row, and minus half of the products of both. Returns false, and leaves all as it is, where no
// variance is left.
bool shrink_means(std::span<const double> counts, std::span<const double> variances, std::span<float> means,
                  std::span<float> coef, std::span<double> offset);

}  // namespace manyclass
