// What rows with drawn alternatives carry between visits: means of estimates of their sums over alternatives, and what
// follows from these.
//
// The mean over visits has weights that grow like t^2: estimates of older visits are those at older coefficients,
// towards which they pull by t^-1.5, where it would be t^-0.5 with equal weights.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "manyclass/choice/problem.hpp"
#include "manyclass/core/types.hpp"
#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

// The share of a visit's estimate in the mean, of which there were `visits` before.
inline double share_of_visit(int visits) { return 3.0 / (visits + 3); }

// Throws std::invalid_argument where one is none of n rows.
inline void check_drawn_rows(std::span<const Index> rows, std::size_t n) {
  for (const Index i : rows) {
    if (i < 0 || static_cast<std::size_t>(i) >= n) throw std::invalid_argument("a row is out of range");
  }
}

// The same, and where a problem has other rows or another noise.
inline void check_drawn_rows(const ChoiceProblem& problem, const std::string& noise, std::span<const Index> rows,
                             std::size_t n) {
  check_drawn_rows(rows, n);
  if (rows.size() != problem.n_rows()) throw std::invalid_argument("rows do not fit the problem");
  if (problem.form.model != noise) throw std::invalid_argument("the problem has other noise");
}

// Of Gumbel noise: estimates A of sums, and the log-normalisers u that follow.
class DrawnSums {
 public:
  explicit DrawnSums(std::size_t n)
      : means_(n, -std::numeric_limits<double>::infinity()), squares_(n, -std::numeric_limits<double>::infinity()) {}

  // Takes in what the problem of these rows, drawn anew, says of their sums; there were `visits` before.
  void visit(const ChoiceProblem& problem, std::span<const Index> rows, std::span<const double> theta, int visits) {
    check_drawn_rows(problem, "gumbel", rows, means_.size());
    std::vector<double> found(rows.size());
    log_sums(problem, theta, found);
    add(rows, found, visits);
  }

  // The double sum of these rows at what they carry, whose gradient is written; then their visit.
  double step(const ChoiceProblem& problem, std::span<const Index> rows, std::span<const double> theta, int visits,
              std::span<double> gradient) {
    check_drawn_rows(problem, "gumbel", rows, means_.size());
    std::vector<double> found(rows.size()), u(rows.size());
    log_normalizers(rows, visits, u);
    const double value = double_sum(problem, theta, u, found, gradient);
    add(rows, found, visits);
    return value;
  }

  // u of each row: e^-u is 1 / A but for terms of the second order in 1 / visits. The mean of 1 / M is (1 + v) / A, M
  // being the mean of the estimates and v its variance in relation to A^2.
  void log_normalizers(std::span<const Index> rows, int visits, std::span<double> out) const {
    check_drawn_rows(rows, means_.size());
    double of_squares = 0;  // the sum of squares of the weights
    for (int visit = 0; visit < visits; ++visit) {
      const double share = share_of_visit(visit);
      of_squares = (1 - share) * (1 - share) * of_squares + share * share;
    }
    for (std::size_t p = 0; p < rows.size(); ++p) {
      const auto i = static_cast<std::size_t>(rows[p]);
      const double spread = std::expm1(squares_[i] - 2 * means_[i]) * of_squares / (1 - of_squares);
      out[p] = means_[i] + std::log1p(spread > 0 ? spread : 0.0);
    }
  }

 private:
  void add(std::span<const Index> rows, std::span<const double> found, int visits) {
    const double share = std::log(share_of_visit(visits)), rest = std::log1p(-share_of_visit(visits));
    for (std::size_t p = 0; p < rows.size(); ++p) {
      const auto i = static_cast<std::size_t>(rows[p]);
      means_[i] = log_add(rest + means_[i], share + found[p]);
      squares_[i] = log_add(rest + squares_[i], share + 2 * found[p]);
    }
  }

  std::vector<double> means_, squares_;
};

// Of normal or logistic noise: the logs of products over alternatives at the nodes of noise (drawn_rules.hpp), in two
// halves of the visits.
//
// Shares q of the nodes are those of f(e) e^S(e), S being the mean of the halves. Noise of S makes them err by a
// curvature times its variance, which is half that of each half's S: so 2 q(S) less the mean of both halves' q has no
// such error.
class DrawnProducts {
 public:
  DrawnProducts(const std::string& noise, std::size_t n);

  // As DrawnSums does.
  void visit(const ChoiceProblem& problem, std::span<const Index> rows, std::span<const double> theta, int visits);
  // The bound of augment and reduce instead of the double sum. There must have been two visits.
  double step(const ChoiceProblem& problem, std::span<const Index> rows, std::span<const double> theta, int visits,
              std::span<double> gradient);
  // Half the difference of the gradients at both halves: what noise of S makes of the gradient, as large as its error.
  void difference(const ChoiceProblem& problem, std::span<const Index> rows, std::span<const double> theta,
                  std::span<double> gradient) const;

 private:
  std::span<float> half(std::size_t which, Index row);
  std::span<const float> half(std::size_t which, Index row) const;
  void add(std::span<const Index> rows, std::span<const double> found, int visits);

  std::string noise_;
  std::size_t n_;
  std::vector<double> log_density_;           // at the nodes, with the log of their spacing
  std::array<std::vector<float>, 2> halves_;  // n x nodes each
};

}  // namespace manyclass
