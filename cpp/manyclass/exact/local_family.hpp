// The best member of the local family for each point, with all classes, and its bound (Ruiz et al. 2018, eq. 6-7).
//
// The latent variable is the noise e of the label's utility, q(e) its approximate posterior: e = mu + s v, v being of
// a standard member whose expectations are a rule's. It maximises
//
//   E_q[log phi(e) + sum_k n_k log Phi(e - d_k)] + log s,   d_k = z_k - z_y,
//
// n_k saying how often class k counts. The noise is normal or logistic, for which the bracket is concave.
#pragma once

#include <span>
#include <string>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/types.hpp"
#include "manyclass/math/gauss_rule.hpp"

namespace manyclass {

// E f(v) = sum_j weights_j f(nodes_j).
struct Rule {
  std::span<const double> nodes, weights;
};

struct LocationScale {
  double mu, s;
};

// Points of m classes each, a row a point: d, and how often each class counts, 0 for the label.
struct Margins {
  std::span<const double> d, counts;
  std::size_t n_classes;
};

// q of each point into mu and s, from `start`. Steps are NaturalBound's of objective/augment_reduce.hpp,
// half of one for s and a whole one for mu, up to where neither moves by 1e-9, or 200.
void best_members(const std::string& noise, const Margins& margins, const Rule& rule, LocationScale start,
                  int n_threads, Isa isa, std::span<double> mu, std::span<double> s);

// The Gauss rule of n nodes for the standard member of a family.
GaussRule rule_of_family(const std::string& family, Index n_nodes);

// A family for a noise: its rule, the entropy of the standard member, s of the best q for the noise alone, without
// classes, and the best q where all classes have the same score.
struct FamilyForNoise {
  GaussRule rule;
  double entropy, largest_scale;
  LocationScale start;
};

// With n_nodes = 0 the rule has as many nodes as leave errors of at most 1 % of the gradient in the scores, but where a
// point is all but certain.
FamilyForNoise family_for_noise(const std::string& noise, const std::string& family, Index n_nodes, Index n_classes);

// Row i of `scores` has all K classes. The best q is by `rule`, starting from `start`; bounds[i] is its bound, which is
// one for every q, by a finer rule.
void best_bounds(const std::string& noise, const std::string& family, std::span<const float> scores,
                 std::span<const Index> labels, const Rule& rule, LocationScale start, int n_threads, Isa isa,
                 std::span<double> bounds);

// Where the bounds of points go, their gradients in the scores (N x K) and in mu and s (N x 2).
struct BoundSlopes {
  std::span<double> values, gradients, parameters;
};

// The bound of each point at a given q of the noise's own family, to rounding: by a trapezoidal rule of q, s <= 1000.
// Labels in [0, K).
void utility_bounds(const std::string& noise, std::span<const double> scores, std::span<const Index> labels,
                    std::span<const double> mu, std::span<const double> s, int n_threads, Isa isa,
                    const BoundSlopes& out);

}  // namespace manyclass
