// The feature map phi: a point's own features, or the sum of its features' embeddings, and how its gradient goes back.
//
//   phi(x) = (x, 1)   or   phi(x) = (sigma(sum_j (x_j - m_j) e_j), 1),    sigma(v) = v or max(v, 0),
//
// where the 1 is there if the model has intercepts, and zeros behind it fill whole cache lines. These are the linear
// classifier and the network with one hidden layer of Yen et al. 2018, sections 5.1 and 5.2. Where there is a centre m,
// of dense points, it and the embeddings have one number and one row more than x has features: x is 0 there, and the
// row a bias, whose value is -m_D.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <variant>

#include "manyclass/core/csr.hpp"
#include "manyclass/weights/vector_rows.hpp"

namespace manyclass {

struct FeatureMap {
  AnyData x;
  VectorRows embeddings;          // e_j in D rows; if empty, phi(x) = (x, 1)
  std::span<const float> centre;  // m; empty: 0
  std::size_t n_hidden;           // columns of phi without the 1
  bool intercept;
  bool relu;

  std::size_t n_points() const { return static_cast<std::size_t>(n_rows(x)); }
  std::size_t n_columns() const { return n_hidden + (intercept ? 1 : 0); }  // with the 1
  bool learns() const { return !embeddings.empty(); }

  // Writes phi(x_i).
  void forward(Index i, std::span<float> phi) const {
    std::ranges::fill(phi, 0.0F);
    if (learns()) {
      for_each_feature(i, [&](Index j, float value) { embeddings.add_to(phi, j, value); });
      if (relu) {
        for (float& v : phi) v = v > 0 ? v : 0;
      }
    } else {
      for_each_feature(i, [&](Index j, float value) { phi[static_cast<std::size_t>(j)] = value; });
    }
    if (intercept) phi[n_hidden] = 1;
  }

  // Turns dL/dphi, in place, into the gradient that x_j carries to e_j.
  void backward(std::span<const float> phi, std::span<float> gradient) const {
    for (std::size_t h = n_hidden; h < gradient.size(); ++h) gradient[h] = 0;
    if (!relu) return;
    for (std::size_t h = 0; h < n_hidden; ++h) gradient[h] = phi[h] > 0 ? gradient[h] : 0;
  }

  // Calls f(j, x_ij - m_j) for every feature of a point where it is not zero.
  template <class F>
  void for_each_feature(Index i, const F& f) const {
    if (const auto* sparse = std::get_if<CsrView>(&x)) {
      const SparseRow row = sparse->row(i);
      for (std::size_t s = 0; s < row.indices.size(); ++s) f(row.indices[s], row.values[s]);
    } else {
      const DenseRow row = std::get<DenseView>(x).row(i);
      for (std::size_t j = 0; j < row.size(); ++j) {
        const float value = centre.empty() ? row[j] : row[j] - centre[j];
        if (value != 0) f(static_cast<Index>(j), value);
      }
      if (!centre.empty()) f(static_cast<Index>(row.size()), -centre.back());
    }
  }
};

}  // namespace manyclass
