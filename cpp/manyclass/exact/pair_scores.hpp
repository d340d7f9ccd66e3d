// Scores in double precision of weights on the pairs of a support, and sums of outer products over these pairs alone: a
// layout beside those of double_scores.hpp.
#pragma once

#include <algorithm>
#include <span>

#include "manyclass/exact/double_scores.hpp"
#include "manyclass/weights/pair_rows.hpp"

namespace manyclass {

struct PairMajor {
  using Data = CsrView;
  using Points = FeatureMajor<float>::Points;
  static constexpr Index narrow = FeatureMajor<float>::narrow;
  static constexpr std::size_t together = 1;

  Support support;
  std::span<const float> values;
  Index n_classes;

  // Scores of the points, which follow each other in z by `width`.
  void scores(const Points& points, ClassRange classes, Isa, double* z, std::size_t width) const {
    for (std::size_t i = 0; i < points.size; ++i) {
      const SparseRow x = points[i];
      const std::span<double> of_point(z + i * width, classes.size());
      std::ranges::fill(of_point, 0.0);
      for (std::size_t n = 0; n < x.indices.size(); ++n) {
        const auto [first, last] = pairs_of(support, x.indices[n], classes, n_classes);
        const auto value = static_cast<double>(x.values[n]);
        for (std::size_t p = first; p < last; ++p) {
          of_point[place(p, classes)] += value * static_cast<double>(values[p]);
        }
      }
    }
  }

  static void add(const Points& points, std::span<const double> a, Isa isa, std::span<double> sums) {
    FeatureMajor<float>::add(points, a, isa, sums);
  }

  // The squares of the sums of some classes, (n_features x n_classes), added up over the pairs.
  double squared(ClassRange classes, std::span<const double> sums) const {
    double total = 0;
    for (std::size_t j = 0; j + 1 < support.indptr.size(); ++j) {
      const auto [first, last] = pairs_of(support, static_cast<Index>(j), classes, n_classes);
      for (std::size_t p = first; p < last; ++p) {
        const double sum = sums[j * classes.size() + place(p, classes)];
        total += sum * sum;
      }
    }
    return total;
  }

 private:
  std::size_t place(std::size_t p, ClassRange classes) const {
    return static_cast<std::size_t>(support.ids[p] - classes.begin);
  }
};

}  // namespace manyclass
