// What rows with drawn alternatives carry between visits: estimates A of their sums over alternatives, and the
// log-normalisers u that follow.
//
// The mean over visits has weights that grow like t^2: estimates of older visits are those at older coefficients, towards
// which they pull by t^-1.5, where it would be t^-0.5 with equal weights.
#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "manyclass/core/types.hpp"
#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

class DrawnSums {
 public:
  explicit DrawnSums(std::size_t n)
      : means_(n, -std::numeric_limits<double>::infinity()), squares_(n, -std::numeric_limits<double>::infinity()) {}

  // Takes in the log of each row's estimate, of which there were `visits` before.
  void add(std::span<const Index> rows, std::span<const double> found, int visits) {
    check(rows);
    if (found.size() != rows.size()) throw std::invalid_argument("rows and estimates differ in length");
    const double share = std::log(share_of(visits)), rest = std::log1p(-share_of(visits));
    for (std::size_t p = 0; p < rows.size(); ++p) {
      const auto i = static_cast<std::size_t>(rows[p]);
      means_[i] = log_add(rest + means_[i], share + found[p]);
      squares_[i] = log_add(rest + squares_[i], share + 2 * found[p]);
    }
  }

  // u of each row: e^-u is 1 / A but for terms of the second order in 1 / visits. The mean of 1 / M is (1 + v) / A, M
  // being the mean of the estimates and v its variance in relation to A^2.
  void log_normalizers(std::span<const Index> rows, int visits, std::span<double> out) const {
    check(rows);
    double of_squares = 0;  // the sum of squares of the weights
    for (int visit = 0; visit < visits; ++visit) {
      const double share = share_of(visit);
      of_squares = (1 - share) * (1 - share) * of_squares + share * share;
    }
    for (std::size_t p = 0; p < rows.size(); ++p) {
      const auto i = static_cast<std::size_t>(rows[p]);
      const double spread = std::expm1(squares_[i] - 2 * means_[i]) * of_squares / (1 - of_squares);
      out[p] = means_[i] + std::log1p(spread > 0 ? spread : 0.0);
    }
  }

 private:
  // The share of a visit's estimate in the mean, of which there were `visits` before.
  static double share_of(int visits) { return 3.0 / (visits + 3); }

  void check(std::span<const Index> rows) const {
    for (const Index i : rows) {
      if (i < 0 || static_cast<std::size_t>(i) >= means_.size()) throw std::invalid_argument("a row is out of range");
    }
  }

  std::vector<double> means_, squares_;
};

}  // namespace manyclass
