// The coefficients of a choice model, all in one vector: beta of features of alternatives, beta of features of pairs,
// W, constants, and dissimilarities of nests, one after the other.
//
//   u_ik = x_i . W z_k + beta . (z_k, s_ik) + a_g(k) + o_ik
//
// W is full, d x w, or of rank m: a left factor d x m and a right one w x m. Without features of alternatives it has a
// column for each alternative but the first, w = K - 1. The constant of the first group is 0 and no coefficient.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ChoiceForm {
  std::string model = "gumbel";            // or "normal", "logistic", "nested"
  std::size_t n_chooser_features = 0;      // d
  std::size_t n_alternative_features = 0;  // q
  std::size_t n_pair_features = 0;         // r
  std::size_t n_own_tastes = 0;            // K where W has a column for each alternative but the first, else 0
  int rank = 0;                            // of W: 0 is no W, -1 a full one
  std::span<const Offset> groups;          // of the alternatives, or empty
  std::size_t n_groups = 0;
  std::span<const Index> nests;  // of the alternatives, or empty
  std::size_t n_nests = 0;

  bool has_own_tastes() const { return rank != 0 && n_own_tastes > 0; }
  std::size_t width() const { return has_own_tastes() ? n_own_tastes - 1 : n_alternative_features; }
  std::size_t n_interactions() const {
    const std::size_t d = n_chooser_features, w = width();
    return rank < 0 ? d * w : static_cast<std::size_t>(rank) * (d + w);
  }
  std::size_t n_constants() const { return n_groups > 0 ? n_groups - 1 : 0; }

  // Where each part begins.
  std::size_t pairs_at() const { return n_alternative_features; }
  std::size_t interactions_at() const { return pairs_at() + n_pair_features; }
  std::size_t constants_at() const { return interactions_at() + n_interactions(); }
  std::size_t nests_at() const { return constants_at() + n_constants(); }
  std::size_t size() const { return nests_at() + n_nests; }

  // Whether (z, constants, s) are few enough features for second derivatives and scores of rows, and W is not of low
  // rank.
  bool has_scores() const;
};

// Throws std::invalid_argument where a group or a nest is out of range.
void check(const ChoiceForm& form);

// W, d x w.
std::vector<double> interactions(const ChoiceForm& form, std::span<const double> theta);

// Adds the gradient by the coefficients of W, of that by W itself (d x w).
void add_interactions(const ChoiceForm& form, std::span<const double> theta, std::span<const double> by_w,
                      std::span<double> gradient);

}  // namespace manyclass
