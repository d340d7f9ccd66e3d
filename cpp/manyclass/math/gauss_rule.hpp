// Gauss rules for weights that are known at many points: E f(v) = sum_j w_j f(v_j), exact for polynomials of degree
// 2 n - 1.
//
// The recurrence of the orthogonal polynomials is made by Stieltjes' procedure on a fine grid. The nodes are the
// eigenvalues of its Jacobi matrix, and the weights the squares of the first components of its eigenvectors (Golub &
// Welsch 1969), found by the QL algorithm with implicit shifts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace manyclass {

struct GaussRule {
  std::vector<double> nodes, weights;  // nodes increase
};

// Nodes and weights of a symmetric tridiagonal matrix: `diagonal` has n numbers, `off` n, the last of which is not
// used.
inline GaussRule rule_of_jacobi_matrix(std::vector<double> diagonal, std::vector<double> off) {
  constexpr int most_sweeps = 100;  // an eigenvalue takes two or three
  const std::size_t n = diagonal.size();
  std::vector<double> first(n, 0.0);  // components of the eigenvectors
  first[0] = 1;
  off[n - 1] = 0;
  for (std::size_t l = 0; l < n; ++l) {
    for (int sweep = 0;; ++sweep) {
      std::size_t m = l;
      for (; m + 1 < n; ++m) {
        const double size = std::fabs(diagonal[m]) + std::fabs(diagonal[m + 1]);
        if (std::fabs(off[m]) <= std::numeric_limits<double>::epsilon() * size) break;
      }
      if (m == l) break;
      if (sweep == most_sweeps) throw std::runtime_error("the eigenvalues of a Jacobi matrix were not found");
      double g = (diagonal[l + 1] - diagonal[l]) / (2 * off[l]);
      g = diagonal[m] - diagonal[l] + off[l] / (g + std::copysign(std::hypot(g, 1.0), g));
      double sine = 1, cosine = 1, shift = 0;
      std::size_t i = m;
      for (; i-- > l;) {
        const double f = sine * off[i], b = cosine * off[i];
        const double r = std::hypot(f, g);
        off[i + 1] = r;
        if (r == 0) {
          diagonal[i + 1] -= shift;
          off[m] = 0;
          break;
        }
        sine = f / r;
        cosine = g / r;
        const double at = diagonal[i + 1] - shift;
        const double t = (diagonal[i] - at) * sine + 2 * cosine * b;
        shift = sine * t;
        diagonal[i + 1] = at + shift;
        g = cosine * t - b;
        const double above = first[i + 1];
        first[i + 1] = sine * first[i] + cosine * above;
        first[i] = cosine * first[i] - sine * above;
      }
      if (i + 1 > l) continue;  // a rotation was left out
      diagonal[l] -= shift;
      off[l] = g;
      off[m] = 0;
    }
  }
  std::vector<std::pair<double, double>> found(n);
  for (std::size_t j = 0; j < n; ++j) found[j] = {diagonal[j], first[j] * first[j]};
  std::ranges::sort(found);
  GaussRule rule;
  for (const auto& [node, weight] : found) {
    rule.nodes.push_back(node);
    rule.weights.push_back(weight);
  }
  return rule;
}

// The rule of n nodes for a standard normal v, whose orthogonal polynomials have the squares 1, 2, ... in their
// recurrence (Hermite).
inline GaussRule gauss_hermite(std::size_t n) {
  std::vector<double> diagonal(n), off(n);
  for (std::size_t k = 0; k + 1 < n; ++k) off[k] = std::sqrt(static_cast<double>(k + 1));
  return rule_of_jacobi_matrix(std::move(diagonal), std::move(off));
}

// The rule of n nodes for weights w at the points v, whose sum is 1.
inline GaussRule gauss_rule(std::span<const double> v, std::span<const double> w, std::size_t n) {
  std::vector<double> diagonal(n), off(n), before(v.size(), 0.0), here(v.size(), 1.0);
  double last_size = 1;
  for (std::size_t k = 0; k < n; ++k) {
    double size = 0, moment = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double square = w[i] * here[i] * here[i];
      size += square;
      moment += square * v[i];
    }
    diagonal[k] = moment / size;
    if (k > 0) off[k - 1] = std::sqrt(size / last_size);
    const double ratio = k > 0 ? size / last_size : 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double next = (v[i] - diagonal[k]) * here[i] - ratio * before[i];
      before[i] = here[i];
      here[i] = next;
    }
    last_size = size;
  }
  return rule_of_jacobi_matrix(std::move(diagonal), std::move(off));
}

}  // namespace manyclass
