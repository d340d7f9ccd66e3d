// A softmax mixed in probability with counts of which classes came with the features of a row.
//
//   p_k = (1 - l m) softmax_k(z) + l q_k,   q_k = sum_j a_j C_jk / (C_j + s),   m = sum_k q_k
//
// C_jk says how many rows had feature j and class k, C_j how many labels the rows of feature j had, and a_j = |x_j| /
// sum_j |x_j|. What rarely seen features leave of a row, 1 - m, stays with the softmax. Where A = sum_k e^{z_k}, adding
// l / (1 - l m) A q_k to e^{z_k} gives scores whose softmax is the mixture, so that each question put to scores has an
// answer. Only the classes that the row's features have counts of move. Where features are classes, as items of a history
// are of the next one, q_k may be 0 for those that the row has: shops hardly sell the same again.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <variant>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/math/elementary.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/weights/coded_rows.hpp"
#include "manyclass/weights/posting_rows.hpp"

namespace manyclass {

struct CountMixture {
  std::span<const Offset> indptr;  // of the classes of each feature
  AnyIds classes;
  std::span<const float> counts;  // C_jk, as many as classes
  std::span<const float> totals;  // C_j
  std::span<const Index> own;  // the class that a feature is, whose q_k is 0 in a row that has it, or -1; none: no one
  double share = 0;            // l, below 1; 0: there is no mixture
  double shrinkage = 0;        // s

  bool is_on() const { return share > 0; }

  void check(std::size_t n_features, std::size_t n_classes) const {
    if (!(share >= 0 && share < 1)) throw std::invalid_argument("the share of counts must be in [0, 1)");
    if (!is_on()) return;
    const std::size_t n_ids = std::visit([](const auto& some) { return some.size(); }, classes);
    const auto is_class = [&](Index k) { return k >= -1 && k < static_cast<std::int64_t>(n_classes); };
    if (counts.size() != n_ids || totals.size() != n_features || indptr.size() != n_features + 1 || !(shrinkage > 0) ||
        (!own.empty() && own.size() != n_features) || !std::ranges::all_of(own, is_class)) {
      throw std::invalid_argument("the counts do not fit the weights on pairs");
    }
  }
};

// The sparse features of a row, of any kind of points that has them.
inline SparseRow sparse_part(const SparseRow& x) { return x; }
inline SparseRow sparse_part(const PairedView::Row& row) { return row.x; }

// Mixes counts into the scores of one row after another; each thread has its own.
class CountMixer {
 public:
  CountMixer(const CountMixture& mixture, std::size_t n_classes) : mixture_(mixture), q_(n_classes) {}

  // Of all classes.
  void mix(const SparseRow& x, std::span<float> z) {
    const double mass = fill(x);
    if (met_.empty()) return;
    LogSumExp sum;
    sum.add(z);
    const double top = sum.value(), factor = mixture_.share / (1 - mixture_.share * mass);
    p_.resize(met_.size());
    more_.resize(met_.size());
    for (std::size_t c = 0; c < met_.size(); ++c) {
      p_[c] = static_cast<float>(sum.log_share(static_cast<double>(z[met_[c]])));
      more_[c] = static_cast<float>(factor * q_[met_[c]]);
      q_[met_[c]] = 0;
    }
    for (std::size_t c = 0; c < p_.size(); ++c) p_[c] = vec::log(vec::exp(p_[c]) + more_[c]);
    for (std::size_t c = 0; c < met_.size(); ++c) {
      // Of no more than what there is the score stays as it is, to the last bit.
      if (more_[c] > 0) z[met_[c]] = std::fmax(z[met_[c]], static_cast<float>(top + static_cast<double>(p_[c])));
    }
  }

 private:
  // Lists the classes whose q_k is above 0; returns their sum.
  double fill(const SparseRow& x) {
    met_.clear();
    double length = 0, mass = 0;
    for (const float value : x.values) length += std::fabs(static_cast<double>(value));
    if (!(length > 0 && std::isfinite(length))) return 0;
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const auto j = static_cast<std::size_t>(x.indices[n]);
      const double share = std::fabs(static_cast<double>(x.values[n])) / length;
      const double a = share / (static_cast<double>(mixture_.totals[j]) + mixture_.shrinkage);
      if (!(a > 0)) continue;
      const auto first = static_cast<std::size_t>(mixture_.indptr[j]);
      const auto last = static_cast<std::size_t>(mixture_.indptr[j + 1]);
      std::visit(
          [&](const auto& ids) {
            for (std::size_t p = first; p < last; ++p) {
              const double more = a * static_cast<double>(mixture_.counts[p]);
              if (!(more > 0)) continue;
              const auto k = static_cast<std::size_t>(ids[p]);
              if (q_[k] == 0) met_.push_back(k);
              q_[k] += more;
              mass += more;
            }
          },
          mixture_.classes);
    }
    if (!mixture_.own.empty()) {
      for (const Index j : x.indices) {
        const Index k = mixture_.own[static_cast<std::size_t>(j)];
        if (k < 0) continue;
        mass -= q_[static_cast<std::size_t>(k)];
        q_[static_cast<std::size_t>(k)] = 0;
      }
    }
    return std::clamp(mass, 0.0, 1.0);
  }

  const CountMixture& mixture_;
  std::vector<double> q_;  // 0 between rows
  std::vector<std::size_t> met_;
  std::vector<float> p_, more_;  // of the met classes: log-probabilities, and what counts add to probabilities
};

}  // namespace manyclass
