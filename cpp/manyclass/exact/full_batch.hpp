// The zero line: a linear model at the optimum of its exact loss over all points, in double precision, by L-BFGS.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/isa.hpp"
#include "manyclass/math/lbfgs.hpp"

namespace manyclass {

// What is minimised: the mean loss of the points, one of FullBatchLosses by name, + alpha / 2 ||W||^2. The intercepts,
// if there are any, have no ridge. Labels in [0, K); `sample_weight` multiplies the points' losses: N of them with mean
// 1, or empty.
struct FullBatchObjective {
  AnyData x;
  std::span<const Index> labels;
  std::span<const double> sample_weight;
  Index n_classes = 0;
  std::string loss;
  double alpha = 0;
  bool fit_intercept = true;
  int n_threads = 1;
  Isa isa = best_isa();
  // Numbers, one for each point and class, that a pass over the scores leaves for the one that adds up the gradient,
  // which then need not make them again: 128 MB at most. Where there is no room for all points, some pass at a time,
  // and the whole gradient is added to for each such lot, which costs about what `nonzeros_a_feature` of each feature
  // do.
  std::size_t room = std::size_t{1} << 24;
  double nonzeros_a_feature = 256;
};

// How many points are to pass at a time, their scores made once; 0: all, and scores are made twice.
std::size_t kept_points(const FullBatchObjective& objective);

// The iterate is one vector: W in the layout of the data, (D, K) for sparse and (K, D) for dense ones, then the
// intercepts. It begins at 0.
class FullBatch {
 public:
  // Throws std::invalid_argument where labels or weights do not fit the points.
  explicit FullBatch(FullBatchObjective objective);

  std::span<double> theta() { return search_.at(); }
  double value() const { return search_.value(); }
  double largest_slope() const { return search_.largest_slope(); }
  std::size_t n_kept() const { return n_kept_; }

  // See Lbfgs::iterate.
  bool iterate(double tolerance);

  // Copies weights into the iterate, or rounds the iterate into weights: rows of the layout, which may be wider than
  // the iterate's, and K intercepts, which are left alone where there are none to fit. Throws std::invalid_argument for
  // other sizes.
  void read(std::span<const float> matrix, std::size_t width, std::span<const float> intercept);
  void write(std::span<float> matrix, std::size_t width, std::span<float> intercept) const;

 private:
  void check_sizes(std::size_t n_weights, std::size_t width, std::size_t n_intercepts) const;
  double evaluate(std::span<const double> theta, std::span<double> gradient);

  FullBatchObjective objective_;
  std::size_t row_width_, n_weights_, n_kept_;
  std::vector<double> room_;  // made once: fresh memory is slow
  Lbfgs search_;
};

}  // namespace manyclass
