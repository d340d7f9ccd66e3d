// The losses of one point over all its scores, with their derivatives: the exact log-loss and two bounds above it.
//
// Each loss has two functions. `fold` sees all scores once and leaves a Memo; `slope` then gives dloss/dz_k of a wrong
// class from its score and the memo alone, so that a later pass may take the classes in chunks.
#pragma once

#include <cmath>
#include <span>

#include "manyclass/core/facts.hpp"
#include "manyclass/math/elementary_double.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/math/root.hpp"

namespace manyclass {

struct Memo {
  double at;           // what slope() compares a score with
  double label_slope;  // dloss/dz_y
};

// log sum_k e^{z_k} - z_y
struct SoftmaxLoss {
  static constexpr Facts facts{.name = "softmax", .sentence = "The exact log-loss."};

  static double fold(std::span<const double> z, std::size_t y, Memo& memo) {
    const double normalizer = log_sum_exp(z);
    memo = {normalizer, std::expm1(z[y] - normalizer)};
    return normalizer - z[y];
  }
  // No score exceeds the normaliser, but a compiler may round the scores of two passes in two ways.
  static double slope(double z, const Memo& memo) { return z > memo.at ? 1.0 : vec::exp(z - memo.at); }
};

// sum_{k != y} log(1 + e^{z_k - z_y}): minus the log of a lower bound of p_y, a product over pairs of classes
// (Titsias, NIPS 2016, eq. 4 and 15).
struct OneVsEachLoss {
  static constexpr Facts facts{.name = "ove",
                               .sentence = "One-vs-each, an upper bound of the log-loss.",
                               .source = "Titsias, NIPS 2016, eq. 15",
                               .biased = true};

  static double fold(std::span<const double> z, std::size_t y, Memo& memo) {
    double loss = 0, slopes = 0;
    for (std::size_t k = 0; k < z.size(); ++k) {
      if (k == y) continue;
      loss += softplus(z[k] - z[y]);
      slopes += sigmoid(z[k] - z[y]);
    }
    memo = {z[y], -slopes};
    return loss;
  }
  static double slope(double z, const Memo& memo) { return sigmoid(z - memo.at); }
};

// min_a a + sum_k log(1 + e^{z_k - a}) - z_y: Bouchard's bound with its best a for each point (Titsias, NIPS 2016, eq.
// 11-12 and section 2.3).
//
// The best a solves sum_k sigmoid(z_k - a) = 1, and there the loss does not move with a to first order, so its slopes
// are those at fixed a. Where the root lies: the two largest scores alone sum to 1 at the middle between them, and
// sigmoid(t) < e^t makes the sum less than 1 at a = log sum e^{z_k}.
struct BouchardLoss {
  static constexpr Facts facts{
      .name = "bouchard",
      .sentence = "Bouchard's upper bound of the log-loss, at its best parameter for each point.",
      .source = "Titsias, NIPS 2016, eq. 11",
      .biased = true};

  static double fold(std::span<const double> z, std::size_t y, Memo& memo) {
    double first = -INFINITY, second = -INFINITY;
    for (const double score : z) {
      if (score > first) {
        second = first;
        first = score;
      } else if (score > second) {
        second = score;
      }
    }
    const Bracket bracket{first + (second - first) / 2, log_sum_exp(z)};
    // Newton's error is about the square of its last step: rounding.
    constexpr double close = 1e-8;
    double a = 0;
    const double rest = find_root(RootFinder::newton, bracket, bracket.low, close, [&](double q) {
      a = q;
      double sum = 0, slope = 0;
      for (const double score : z) {
        const double s = sigmoid(score - q);
        sum += s;
        slope += s * (1 - s);
      }
      return Probe{1 - sum, slope};
    });
    a += rest;
    double loss = a - z[y];
    for (const double score : z) loss += softplus(score - a);
    memo = {a, sigmoid(z[y] - a) - 1};
    return loss;
  }
  static double slope(double z, const Memo& memo) { return sigmoid(z - memo.at); }
};

using FullBatchLosses = Parts<SoftmaxLoss, OneVsEachLoss, BouchardLoss>;

}  // namespace manyclass
