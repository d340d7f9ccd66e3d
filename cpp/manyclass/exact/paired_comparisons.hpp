// The Bradley-Terry model of paired comparisons: P(k beats l) = sigma(f_k - f_l).
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// Entry i: wins[i] > 0 of winner[i] over loser[i], another class. Pairs are distinct.
struct PairedWins {
  std::span<const Index> winner, loser;
  std::span<const double> wins;
  std::size_t n_classes = 0;
};

// Throws std::invalid_argument where the lists do not fit each other or a class is out of range.
void check(const PairedWins& pairs);

// sum n_kl log sigma(f_k - f_l), whose gradient is written.
double log_likelihood(const PairedWins& pairs, std::span<const double> f, std::span<double> gradient);

// Strong components of the graph of wins: how many there are, and how many classes are in that of class 0. The
// likelihood has a maximum where there is one.
struct GroupsOfWins {
  std::size_t n_groups = 0, n_with_first = 0;
};
GroupsOfWins groups_of_wins(const PairedWins& pairs);

// The f of mean 0 that maximises the likelihood, by Newton's method until no score would move by more than `tol`. There
// must be one group of wins.
std::vector<double> maximum_likelihood_scores(const PairedWins& pairs, double tol);

}  // namespace manyclass
