// A softmax mixed in probability with counts of which classes came with the features of a row, and with repeats of what
// the row has.
//
//   p_k = (1 - rho) [(1 - l m) softmax_k(z) + l q_k] + rho r_k,   q_k = sum_j a_j C_jk / (C_j + s),   m = sum_k q_k
//
// C_jk says how many rows had feature j and class k, C_j how many labels the rows of feature j had, and a_j = |x_j| /
// sum_j |x_j|. What rarely seen features leave of a row, 1 - m, stays with the softmax. Features may be classes, as
// items of a history are of the next one: the own classes of a row. r_k = |x_k|^gamma / sum of these is a distribution
// over them, the softmax is one over the others, and q_k counts own classes or is 0 for them. A row without own
// classes, or with all classes, has the mixture of softmax and counts alone.
//
// Some items come again more often than others: what is used up, or was looked at twice. With mu > 0, how often the
// items of a row came next in training, v_k = (C_kk + s mu) / (C_k + s) is how often item k did, and
//
//   r_k = w_k / sum w,   w_k = (|x_k| / max |x|)^gamma v_k,   rho / (1 - rho) is multiplied by the mean of w_k / mu,
//
// the maximum and the mean being those over the row's own classes.
//
// Where A is the sum of e^{z_k} over the classes of the softmax, scores whose softmax is the mixture are log(e^{z_k} +
// A l q_k / (1 - l m)), and of own classes log(A ((1 - rho) l q_k + rho r_k) / ((1 - rho) (1 - l m))). So each question
// that is put to scores has an answer. Only the row's own classes and those that its features have counts of move.
//
// Counts may know how probable classes are and yet rank them worse than margins do. Then the `kept` classes of the
// largest z get the largest of the mixed scores, in the order of z: among them and the `kOthers` times as many classes
// of the largest mixed scores, scores change places, so that they sum to what they were, and the others keep the order
// of the mixture.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <variant>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/math/elementary.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/weights/coded_rows.hpp"
#include "manyclass/weights/pair_rows.hpp"

namespace manyclass {

struct CountMixture {
  std::span<const Offset> indptr;  // of the classes of each feature
  AnyIds classes;
  std::span<const float> counts;  // C_jk, as many as classes
  std::span<const float> totals;  // C_j
  double share = 0;               // l, below 1; 0: no counts are mixed in
  double shrinkage = 0;           // s
  std::span<const Index> own;     // the class that a feature is, or -1; none: no feature is a class
  bool counts_own = false;        // whether q counts own classes
  double repeats = 0;             // rho, below 1; 0: no class is an own one
  double power = 0;               // gamma
  double rate = 0;                // mu; 0: all classes repeat alike
  Index kept = 0;                 // classes that stay first in the order of z

  bool is_on() const { return share > 0 || repeats > 0; }

  void check(std::size_t n_features, std::size_t n_classes) const {
    if (!(share >= 0 && share < 1)) throw std::invalid_argument("the share of counts must be in [0, 1)");
    const auto is_class = [&](Index k) { return k >= -1 && k < static_cast<std::int64_t>(n_classes); };
    if ((!own.empty() && own.size() != n_features) || !std::ranges::all_of(own, is_class)) {
      throw std::invalid_argument("the own classes of features do not fit the weights");
    }
    if (!(repeats >= 0 && repeats < 1)) throw std::invalid_argument("the share of repeats must be in [0, 1)");
    if (!(power >= 0 && std::isfinite(power))) throw std::invalid_argument("the power of repeats must be at least 0");
    if (!(rate >= 0 && rate <= 1)) throw std::invalid_argument("the rate of repeats must be in [0, 1]");
    if (kept < 0) throw std::invalid_argument("the number of classes that keep their order must be at least 0");
    if (!(share > 0) && !(rate > 0)) return;
    const std::size_t n_ids = std::visit([](const auto& some) { return some.size(); }, classes);
    if (counts.size() != n_ids || totals.size() != n_features || indptr.size() != n_features + 1 || !(shrinkage > 0)) {
      throw std::invalid_argument("the counts do not fit the weights on pairs");
    }
  }
};

// C_jk of one feature.
inline double count_of(const CountMixture& counted, std::size_t feature, std::size_t k) {
  const auto first = static_cast<std::size_t>(counted.indptr[feature]);
  const auto last = static_cast<std::size_t>(counted.indptr[feature + 1]);
  return std::visit(
      [&](const auto& ids) {
        const auto some = ids.subspan(first, last - first);
        const auto at = std::ranges::lower_bound(some, k, {}, [](auto id) { return static_cast<std::size_t>(id); });
        const bool there = at != some.end() && static_cast<std::size_t>(*at) == k;
        return there ? static_cast<double>(counted.counts[first + static_cast<std::size_t>(at - some.begin())]) : 0.0;
      },
      counted.classes);
}

// v_k / mu of a class that has come next C_kk times of C_k.
inline double times_as_often(double again, double total, double shrinkage, double rate) {
  return (again / rate + shrinkage) / (total + shrinkage);
}

// The sparse features of a row, of any kind of points that has them.
inline SparseRow sparse_part(const SparseRow& x) { return x; }
inline SparseRow sparse_part(const PairedView::Row& row) { return row.x; }

// Mixes counts into the scores of one row after another; each thread has its own.
class CountMixer {
 public:
  CountMixer(const CountMixture& mixture, std::size_t n_classes) : mixture_(mixture), q_(n_classes) {}

  // Of all classes.
  void mix(const SparseRow& x, std::span<float> z) {
    find_own(x, z.size());
    const double mass = mixture_.share > 0 ? count(x) : 0;
    if (met_.empty() && own_.empty()) return;
    const auto n_kept = static_cast<std::size_t>(mixture_.kept);
    if (n_kept > 0) find_largest(z, n_kept, first_);
    const double left = 1 - mixture_.share * mass, factor = mixture_.share / left;
    for (Own& one : own_) {
      const double repeat = mixture_.repeats / ((1 - mixture_.repeats) * left) * odds_ * one.r;
      one.odds = std::fmax(factor * q_[one.k] + repeat, kNever);
      z[one.k] = std::numeric_limits<float>::lowest();
    }
    LogSumExp sum;
    sum.add(z);
    const double top = sum.value();
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
    for (const Own& one : own_) z[one.k] = static_cast<float>(top + std::log(one.odds));
    if (n_kept > 0) keep_order(z);
  }

 private:
  static constexpr std::size_t kOthers = 4;

  struct Scored {
    float z;
    std::size_t k;
  };

  // Lists the classes of the n largest scores, the largest first and of equal ones the first class.
  static void find_largest(std::span<const float> z, std::size_t n, std::vector<Scored>& found) {
    found.clear();
    for (std::size_t k = 0; k < z.size(); ++k) {
      if (found.size() == n && !(z[k] > found.back().z)) continue;
      if (found.size() == n) found.pop_back();
      found.insert(std::ranges::upper_bound(found, z[k], std::greater{}, &Scored::z), {z[k], k});
    }
  }

  // Hands the largest of the mixed scores z to the classes of `first_`, and the next ones to those that had them.
  void keep_order(std::span<float> z) {
    find_largest(z, (1 + kOthers) * first_.size(), others_);
    const auto is_first = [&](std::size_t k) { return std::ranges::find(first_, k, &Scored::k) != first_.end(); };
    std::erase_if(others_, [&](const Scored& other) { return is_first(other.k); });
    std::vector<float>& values = more_;
    values.clear();
    for (const Scored& one : first_) values.push_back(z[one.k]);
    for (const Scored& other : others_) values.push_back(other.z);
    std::ranges::sort(values, std::greater{});
    // Repeats of equal values have equal scores: the classes that are first stay so by the least difference.
    float below = std::numeric_limits<float>::max();
    std::size_t place = 0;
    for (const Scored& one : first_) {
      z[one.k] = std::fmin(values[place++], below);
      below = std::nextafter(z[one.k], std::numeric_limits<float>::lowest());
    }
    for (const Scored& other : others_) z[other.k] = std::fmin(values[place++], below);
  }

  // What never repeats has log-odds of -87 to all other classes, so that its score is a number.
  static constexpr double kNever = std::numeric_limits<float>::min();

  struct Own {
    std::size_t k;
    double r;
    std::size_t feature;
    double odds = 0;  // of its probability to that of all classes of the softmax
  };

  // Lists the classes that the row has as features, and their distribution r; none, if the row has all classes.
  void find_own(const SparseRow& x, std::size_t n_classes) {
    own_.clear();
    if (!(mixture_.repeats > 0) || mixture_.own.empty()) return;
    double largest = 0, sum = 0;
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const Index k = mixture_.own[static_cast<std::size_t>(x.indices[n])];
      const double value = std::fabs(static_cast<double>(x.values[n]));
      if (k < 0 || !(value > 0 && std::isfinite(value))) continue;
      own_.push_back({.k = static_cast<std::size_t>(k), .r = value, .feature = static_cast<std::size_t>(x.indices[n])});
      largest = std::fmax(largest, value);
    }
    if (own_.size() >= n_classes) own_.clear();
    for (Own& one : own_) sum += one.r = std::pow(one.r / largest, mixture_.power) * times_the_mean(one);
    for (Own& one : own_) one.r /= sum;
    odds_ = mixture_.rate > 0 ? sum / static_cast<double>(own_.size()) : 1;
  }

  // v_k / mu.
  double times_the_mean(const Own& one) const {
    if (!(mixture_.rate > 0)) return 1;
    return times_as_often(count_of(mixture_, one.feature, one.k), static_cast<double>(mixture_.totals[one.feature]),
                          mixture_.shrinkage, mixture_.rate);
  }

  // Lists the classes whose q_k is above 0; returns their sum.
  double count(const SparseRow& x) {
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
    for (const Own& one : own_) {
      if (mixture_.counts_own) continue;
      mass -= q_[one.k];
      q_[one.k] = 0;
    }
    return std::clamp(mass, 0.0, 1.0);
  }

  const CountMixture& mixture_;
  std::vector<double> q_;  // 0 between rows
  std::vector<std::size_t> met_;
  std::vector<Own> own_;
  double odds_ = 1;              // what the row multiplies the odds of repeats by
  std::vector<float> p_, more_;  // of the met classes: log-probabilities, and what counts add to probabilities
  std::vector<Scored> first_, others_;
};

}  // namespace manyclass
