// Mixed logit: coefficients that vary among persons, and the simulated likelihood of these persons' choices.
//
//   beta_j = v_j, e^{v_j} or -e^{v_j},   v_j = theta_j + sum_f s_jf x_f + sum_{l <= j} L_jl z_l
//   log L = sum_p log 1/R sum_r prod_{i of p} P_i(y_i | beta(z_r))
//
// z_r are draws of independent numbers around 0, x the features of the person's first row, and theta all other
// coefficients, too (Revelt & Train 1998; Train 2009, "Discrete choice methods with simulation", ch. 6 and 11).
#pragma once

#include <span>

#include "manyclass/choice/problem.hpp"

namespace manyclass {

struct MixedProblem {
  ChoiceProblem problem;            // of Gumbel noise, rows person after person; W is none or full
  std::span<const Offset> persons;  // number of persons + 1: where the rows of each begin
  std::span<const Index> columns;   // J: the coefficients of the form that vary; theta has their theta_j there
  std::span<const double> signs;    // J: 0 for beta_j = v_j, else beta_j = signs[j] e^{v_j}
  std::span<const Index> spreads;   // J x J: where theta has L_jl; -1 where there is none
  std::span<const Index> shifts;    // J x d: where theta has s_jf; -1 where there is none
  std::size_t n_coefficients = 0;   // those of the form, and behind them spreads and shifts

  std::size_t n_varying() const { return columns.size(); }
};

// Throws std::invalid_argument where sizes do not fit each other, or the form is of another kind.
void check(const MixedProblem& mixed);

// Draws of some persons, each J x R, and these persons.
struct PersonDraws {
  std::span<const float> values;
  std::size_t n_draws = 0;  // R
  std::size_t begin = 0, end = 0;
};

// The log-likelihood of each of these persons, without weights, and its gradient by all coefficients.
void person_scores(const MixedProblem& mixed, const PersonDraws& draws, std::span<const double> theta,
                   std::span<double> log_likelihoods, std::span<double> scores);

// The means of beta_j and beta_j^2 over each person's distribution given the choices: J each (Train 2009, ch. 11).
void person_coefficients(const MixedProblem& mixed, const PersonDraws& draws, std::span<const double> theta,
                         std::span<double> means, std::span<double> squares);

// Means over the distribution of the rows of these persons: probabilities, K a row, and logsums, one a row.
void mean_probabilities(const MixedProblem& mixed, const PersonDraws& draws, std::span<const double> theta,
                        std::span<double> probabilities, std::span<double> logsums);

}  // namespace manyclass
