// A linear model's choice probabilities under any noise: log-loss and rank of the label, the k most probable classes,
// and chosen rows in full. Never an N x K array but where it is the answer.
#pragma once

#include <span>

#include "manyclass/evaluate/tiles.hpp"
#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

// losses[i] = -log p(y_i) in nats; ranks as in log_loss.hpp.
template <class Data, class Rows>
void utility_log_losses(const NoiseKind& noise, const Data& x, std::span<const Index> labels, const Model<Rows>& model,
                        int n_threads, Isa isa, std::span<double> losses, std::span<Index> ranks);

// As top_k.hpp: p_k grows with z_k, so the k largest scores are the k most probable classes.
template <class Data, class Rows>
void utility_top_k(const NoiseKind& noise, const Data& x, const Model<Rows>& model, Index k, int n_threads, Isa isa,
                   std::span<Index> classes, std::span<float> log_probabilities);

// Row i of `out` (N x K): p, or log p.
template <class Data, class Rows>
void utility_all(const NoiseKind& noise, const Data& x, const Model<Rows>& model, bool log, int n_threads, Isa isa,
                 std::span<double> out);

}  // namespace manyclass
