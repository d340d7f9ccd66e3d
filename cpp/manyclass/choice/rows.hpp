// Choosers, the alternatives that each may choose among, and the utilities of these.
//
//   u_ik = c_k + v_i . z_k + g . s_ik + o_ik
//
// c_k is a constant of the alternative, v_i are the tastes of chooser i (q numbers) for the features z_k of the
// alternative, g are the coefficients of the features s_ik of the pair (r numbers), and o_ik is an offset.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Without `listed_only`, every alternative may be chosen, and those that a row lists have features of the pair and an
// offset beside; -infinity as an offset takes one out. With it, a row's list is the set that it may choose from.
struct ChoiceRows {
  std::span<const double> constants;      // K
  std::span<const double> tastes;         // n x q
  std::span<const double> features;       // K x q
  std::size_t n_features = 0;             // q
  bool own_tastes = false;                // z_k is the k-th unit vector: q = K, and `features` is empty
  std::span<const Offset> indptr;         // n + 1, or empty: no row lists any
  std::span<const Index> alternatives;    // those listed, row after row; distinct within a row
  std::span<const double> pair_features;  // of those listed, r each
  std::span<const double> pair_coef;      // r
  std::span<const double> offsets;        // of those listed, or empty
  std::span<const double> log_weights;    // of those listed: log of how many each stands for where some were drawn
  bool listed_only = false;
  Index n_rows = 0;

  std::size_t n_alternatives() const { return constants.size(); }
  std::size_t n_pair_features() const { return pair_coef.size(); }
  std::size_t begin(std::size_t i) const { return indptr.empty() ? 0 : static_cast<std::size_t>(indptr[i]); }
  std::size_t end(std::size_t i) const { return indptr.empty() ? 0 : static_cast<std::size_t>(indptr[i + 1]); }
  // How many alternatives row i may choose from, those at -infinity included.
  std::size_t set_size(std::size_t i) const { return listed_only ? end(i) - begin(i) : n_alternatives(); }
};

// Throws std::invalid_argument where sizes do not fit each other or an alternative is out of range.
void check(const ChoiceRows& rows);

// sum_k a_k b_k in lanes that the compiler may vectorise.
inline double dot(const double* a, const double* b, std::size_t n) {
  constexpr std::size_t lanes = 16;
  double sums[lanes] = {};
  std::size_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += a[k + l] * b[k + l];
  }
  double sum = 0;
  for (; k < n; ++k) sum += a[k] * b[k];
  for (const double part : sums) sum += part;
  return sum;
}

// The features of alternatives by feature, for loops over all alternatives: q x K.
std::vector<double> by_feature(const ChoiceRows& rows);

// Utilities of the set of row i, in the order of its list, or of all alternatives.
inline void utilities_of(const ChoiceRows& rows, std::span<const double> transposed, std::size_t i,
                         std::span<double> u) {
  const std::size_t q = rows.n_features, r = rows.n_pair_features(), n = u.size();
  const double* v = rows.tastes.data() + i * q;
  if (!rows.listed_only) {
    for (std::size_t k = 0; k < n; ++k) u[k] = rows.constants[k];
    for (std::size_t k = 0; rows.own_tastes && k < n; ++k) u[k] += v[k];
    for (std::size_t j = 0; !rows.own_tastes && j < q; ++j) {
      const double* z = transposed.data() + j * n;
      const double taste = v[j];
      for (std::size_t k = 0; k < n; ++k) u[k] += taste * z[k];
    }
  }
  for (std::size_t at = rows.begin(i); at < rows.end(i); ++at) {
    const auto k = static_cast<std::size_t>(rows.alternatives[at]);
    double sum = rows.offsets.empty() ? 0.0 : rows.offsets[at];
    for (std::size_t j = 0; j < r; ++j) sum += rows.pair_coef[j] * rows.pair_features[at * r + j];
    if (rows.listed_only) {
      sum += rows.constants[k];
      if (rows.own_tastes) sum += v[k];
      for (std::size_t j = 0; !rows.own_tastes && j < q; ++j) sum += v[j] * rows.features[k * q + j];
      u[at - rows.begin(i)] = sum;
    } else {
      u[k] += sum;
    }
  }
}

}  // namespace manyclass
