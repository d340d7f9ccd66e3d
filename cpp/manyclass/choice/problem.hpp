// A choice model's data and form together: losses of rows, and the objective with its gradient by all coefficients.
#pragma once

#include <span>

#include "manyclass/choice/form.hpp"
#include "manyclass/choice/sums.hpp"

namespace manyclass {

struct ChoiceData {
  std::span<const double> X;              // n x d
  std::span<const double> Z;              // K x q, or the values of a sparse matrix
  std::span<const Offset> Z_indptr;       // K + 1, or empty: Z is dense
  std::span<const Index> Z_indices;       // of `Z`, where it is sparse
  std::span<const double> constants;      // K, added to utilities; -infinity takes an alternative out
  std::span<const Offset> indptr;         // n + 1: lists of alternatives, see ChoiceRows
  std::span<const Index> alternatives;    // increasing within a row
  std::span<const double> pair_features;  // of those listed, r each
  std::span<const double> offsets;        // of those listed
  std::span<const double> log_weights;    // of those listed, see ChoiceRows
  bool listed_only = false;
  std::span<const Index> chosen;    // n, or empty where it is not known
  std::span<const double> weights;  // n, or empty
  Index n_rows = 0;

  std::size_t n_alternatives() const { return constants.size(); }
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

// Throws std::invalid_argument where sizes do not fit each other.
void check(const ChoiceProblem& problem);

// The log-loss of each row, in nats.
void losses(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The sum over rows of weight times loss, whose gradient is written.
double objective(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> gradient);

// The logsum of each row, of Gumbel noise.
void inclusive_values(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// Of rows whose alternatives were drawn, the log of the estimate of each row's sum relative to its choice; see
// DrawnChoice.
void log_sums(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out);

// The same, and their double sum with the log-normalisers that rows carry: its value, and its gradient that is written.
double double_sum(const ChoiceProblem& problem, std::span<const double> theta, std::span<const double> log_normalizers,
                  std::span<double> sums, std::span<double> gradient);

// Of rows with normal or logistic noise whose alternatives were drawn: the logs of products over alternatives at the
// nodes of their noise (n x nodes), see AugmentedChoice. With weights of these nodes, also the gradient of minus their
// sums.
void log_products(const ChoiceProblem& problem, std::span<const double> theta, std::span<const double> node_weights,
                  std::span<double> products, std::span<double> gradient);

}  // namespace manyclass
