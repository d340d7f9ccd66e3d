// The k most probable classes of each point, with their log-probabilities; and plain scores.
#pragma once

#include <span>

#include "manyclass/evaluate/tiles.hpp"

namespace manyclass {

// Row i of `classes` and `log_probabilities` (N x k): best first, equal scores by class. k in [1, K].
template <class Data, class Rows>
void top_k(const Data& x, const Model<Rows>& model, Index k, int n_threads, Isa isa, std::span<Index> classes,
           std::span<float> log_probabilities);

// Row i of `classes` (N x m): the m wrong classes of largest score, best first. m in [1, K).
template <class Data, class Rows>
void top_wrong(const Data& x, std::span<const Index> labels, const Model<Rows>& model, int n_threads, Isa isa,
               std::span<Index> classes);

// Row i of `out` (N x K) = z_i.
template <class Data, class Rows>
void all_scores(const Data& x, const Model<Rows>& model, int n_threads, Isa isa, std::span<float> out);

}  // namespace manyclass
