// Exact log-loss and rank of the true class, point by point.
#pragma once

#include <span>

#include "manyclass/evaluate/tiles.hpp"

namespace manyclass {

// losses[i] = log sum_k e^{z_k} - z_y in nats; ranks[i] is the number of classes that stand before y when sorted by
// score, equal scores by class. Throws std::invalid_argument where there is not a label in [0, K) for each point.
template <class Data, class Rows>
void log_losses(const Data& x, std::span<const Index> labels, const Model<Rows>& model, int n_threads, Isa isa,
                std::span<double> losses, std::span<Index> ranks);

// log_normalizers[i] = log sum_k e^{z_k}.
template <class Data, class Rows>
void log_normalizers(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, std::span<double> normalizers);

}  // namespace manyclass
