// Choice probabilities P(psi_k + eps_k is the largest) of rows of mean utilities psi, for Gumbel, normal or logistic
// noise: all classes, some, one label a row; and the importance sampler of Ruiz et al. for comparison.
#pragma once

#include <cstdint>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/core/types.hpp"
#include "manyclass/math/noise.hpp"

namespace manyclass {

// Rows of K finite utilities.
struct UtilityRows {
  std::span<const double> psi;
  std::size_t n_classes;

  std::size_t size() const { return psi.size() / n_classes; }
  std::span<const double> row(std::size_t i) const { return psi.subspan(i * n_classes, n_classes); }
};

// Throw std::invalid_argument where a value is not finite, or a class is not below n_classes.
void check(const UtilityRows& rows);
void check_classes(std::span<const Index> classes, std::size_t n_classes);

// Row i of `out`: p, or log p, of every class.
void utility_probabilities(const NoiseKind& noise, const UtilityRows& rows, bool log, int n_threads, Isa isa,
                           std::span<double> out);

// Row i of `out`: p, or log p, of row i of `classes`, both of `width` columns.
void utility_probabilities_at(const NoiseKind& noise, const UtilityRows& rows, std::span<const Index> classes,
                              std::size_t width, bool log, int n_threads, Isa isa, std::span<double> out);

// out[i] = log of the estimate of p(labels[i]) by n_samples draws of the noise from N(5, 5^2), the draws of row i being
// named by (seed, i).
void sampled_utility_log_probabilities(const NoiseKind& noise, const UtilityRows& rows, std::span<const Index> labels,
                                       int n_samples, std::uint64_t seed, int n_threads, Isa isa,
                                       std::span<double> out);

}  // namespace manyclass
