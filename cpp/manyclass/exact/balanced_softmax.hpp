// Rows of the softmax moved to given class totals, and the sums over them that a duality bound is made of.
//
// p_i = softmax(z_i) has totals s_k = sum_i r_i p_ik, r_i being the weights of the points, 1 unless given, and N their
// sum; wanted are totals n_k with sum_k n_k = N. Put
//
//   q_ik = keep_k p_ik + removed_i fill_k,   keep_k = min(1, n_k / s_k),   removed_i = 1 - sum_k keep_k p_ik,
//   fill_k = max(0, n_k - s_k) / sum_l max(0, n_l - s_l).
//
// A row still sums to 1, because fill does. Column k sums to min(s_k, n_k) + fill_k sum_i r_i removed_i, and
// sum_i r_i removed_i = N - sum_l min(s_l, n_l) = sum_l max(0, n_l - s_l): to n_k. Only the mass in surplus moves, so
// q = p where the totals were right.
#pragma once

#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/exact/double_scores.hpp"

namespace manyclass {

// Per point log sum_k e^{z_k} and log-loss, per class the total s_k of the probabilities. All outputs are overwritten.
// `weights` are r, or empty.
template <class Data, class Layout>
void softmax_totals(const Data& x, std::span<const Index> labels, std::span<const double> weights,
                    const DoubleModel<Layout>& model, int n_threads, Isa isa, std::span<double> normalizers,
                    std::span<double> losses, std::span<double> totals);

// q, by what makes it.
struct Balance {
  std::span<const double> normalizers;  // N
  std::span<const double> keep, fill;   // K each
};

// Per point the entropy of q_i in nats, and q_{i, y_i}. Returns the sum over classes and features, of weights on pairs
// over these alone, of (sum_i r_i ([k = y_i] - q_ik) x_ij)^2. Throws std::invalid_argument where the balance does not
// fit the points and classes.
template <class Data, class Layout>
double balanced_softmax(const Data& x, std::span<const Index> labels, std::span<const double> weights,
                        const DoubleModel<Layout>& model, const Balance& balance, int n_threads, Isa isa,
                        std::span<double> entropies, std::span<double> label_probabilities);

}  // namespace manyclass
