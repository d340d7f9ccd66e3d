// A choice model's data and form together, what its coefficients make of them, and pieces of rows that are worked
// through together.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "manyclass/choice/form.hpp"
#include "manyclass/choice/products.hpp"
#include "manyclass/core/simd.hpp"

namespace manyclass {

// Without `listed_only`, every alternative may be chosen, and those that a row lists have features of the pair and an
// offset beside; -infinity as an offset takes one out. With it, a row's list is the set that it may choose from.
struct ChoiceData {
  std::span<const double> X;              // n x d
  std::span<const double> Z;              // K x q, or the values of a sparse matrix
  std::span<const Offset> Z_indptr;       // K + 1, or empty: Z is dense
  std::span<const Index> Z_indices;       // of `Z`, where it is sparse
  std::span<const double> constants;      // K, added to utilities; -infinity takes an alternative out
  std::span<const Offset> indptr;         // n + 1, or empty: no row lists any
  std::span<const Index> alternatives;    // those listed, row after row; distinct within a row
  std::span<const double> pair_features;  // of those listed, r each
  std::span<const double> offsets;        // of those listed, or empty
  std::span<const double> log_weights;    // of those listed: log of how many each stands for where some were drawn
  bool listed_only = false;
  std::span<const Index> chosen;    // n, or empty where it is not known
  std::span<const double> weights;  // n, or empty
  Index n_rows = 0;

  std::size_t n_alternatives() const { return constants.size(); }
  std::size_t begin(std::size_t i) const { return indptr.empty() ? 0 : static_cast<std::size_t>(indptr[i]); }
  std::size_t end(std::size_t i) const { return indptr.empty() ? 0 : static_cast<std::size_t>(indptr[i + 1]); }
  // How many alternatives row i may choose from, those at -infinity included, and which the p-th of them is.
  std::size_t set_size(std::size_t i) const { return listed_only ? end(i) - begin(i) : n_alternatives(); }
  std::size_t member(std::size_t i, std::size_t p) const {
    return listed_only ? static_cast<std::size_t>(alternatives[begin(i) + p]) : p;
  }
};

struct ChoiceProblem {
  ChoiceForm form;
  ChoiceData data;
  int n_threads = 1;
  Isa isa = best_isa();

  std::size_t n_rows() const { return static_cast<std::size_t>(data.n_rows); }
  std::size_t n_alternatives() const { return data.n_alternatives(); }
  double weight(std::size_t i) const { return data.weights.empty() ? 1.0 : data.weights[i]; }
};

// Throws std::invalid_argument where sizes do not fit each other or an alternative is out of range.
void check(const ChoiceProblem& problem);

// What utilities are made of at some coefficients: constants c_k, tastes v_i = base + x_i W for features z_k, and
// coefficients of pairs.
struct ChoiceParts {
  std::vector<double> constants;   // K
  std::vector<double> base;        // width, or empty
  std::vector<double> W;           // d x width
  std::vector<double> features;    // K x width, or empty where tastes are those for alternatives themselves
  std::vector<double> by_feature;  // the same, width x K, where rows do not list what they may choose
  std::size_t width = 0;
  bool own_tastes = false;
  std::span<const double> pair_coef, dissimilarity;
};

// Throws std::invalid_argument where the form has another number of coefficients.
ChoiceParts make_parts(const ChoiceProblem& problem, std::span<const double> theta);

// The same utilities with constants and tastes for alternatives as features, (z, constants, own tastes).
ChoiceParts make_explicit_parts(const ChoiceProblem& problem, std::span<const double> theta);

// out[j] += sum_k z_kj v_k.
void add_features_transposed(const ChoiceProblem& problem, std::span<const double> v, std::span<double> out);

// Rows [begin, end) of a problem with their tastes, n x width.
struct ChoicePiece {
  std::size_t begin, end;
  std::vector<double> tastes;

  std::size_t size() const { return end - begin; }
};

ChoicePiece make_piece(const ChoiceProblem& problem, const ChoiceParts& parts, std::size_t begin, std::size_t end);

// Calls f(piece) for pieces of rows that have some `numbers` each.
template <class F>
void for_pieces(const ChoiceProblem& problem, const ChoiceParts& parts, std::size_t numbers, const F& f) {
  // 1 MB, which the second cache has; up to 32 MB for rows enough to be shared out to threads.
  constexpr std::size_t together = std::size_t{1} << 17, most = std::size_t{1} << 22, enough = 256;
  const std::size_t each = std::max(numbers, std::size_t{1});
  const std::size_t step = std::max({together / each, std::min(enough, most / each), std::size_t{1}});
  for (std::size_t begin = 0; begin < problem.n_rows(); begin += step) {
    f(make_piece(problem, parts, begin, std::min(begin + step, problem.n_rows())));
  }
}

// Utilities of the set of row i with tastes v, in the order of its list, or of all alternatives.
inline void set_utilities(const ChoiceData& data, const ChoiceParts& parts, const double* v, std::size_t i,
                          std::span<double> u) {
  const std::size_t q = parts.width, r = parts.pair_coef.size(), n = u.size();
  if (!data.listed_only) {
    for (std::size_t k = 0; k < n; ++k) u[k] = parts.constants[k];
    for (std::size_t k = 0; parts.own_tastes && k < n; ++k) u[k] += v[k];
    for (std::size_t j = 0; !parts.own_tastes && j < q; ++j) {
      const double* z = parts.by_feature.data() + j * n;
      const double taste = v[j];
      for (std::size_t k = 0; k < n; ++k) u[k] += taste * z[k];
    }
  }
  const std::size_t begin = data.begin(i), end = data.end(i);
  for (std::size_t at = begin; at < end; ++at) {
    const auto k = static_cast<std::size_t>(data.alternatives[at]);
    double sum = data.offsets.empty() ? 0.0 : data.offsets[at];
    for (std::size_t j = 0; j < r; ++j) sum += parts.pair_coef[j] * data.pair_features[at * r + j];
    if (data.listed_only) {
      sum += parts.constants[k];
      if (parts.own_tastes) sum += v[k];
      for (std::size_t j = 0; !parts.own_tastes && j < q; ++j) sum += v[j] * parts.features[k * q + j];
      u[at - begin] = sum;
    } else {
      u[k] += sum;
    }
  }
}

}  // namespace manyclass
