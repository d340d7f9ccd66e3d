// What the coefficients of a choice model make of its data, and pieces of rows that are worked through together.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "manyclass/choice/problem.hpp"
#include "manyclass/choice/products.hpp"

namespace manyclass {

// Throws std::invalid_argument where the form has another number of coefficients.
void check_coefficients(const ChoiceProblem& problem, std::size_t n);

// What utilities are made of at some coefficients: constants c_k, and tastes v_i = base + x_i W for features z_k.
struct ChoiceParts {
  std::vector<double> constants;  // K
  std::vector<double> base;       // width, or empty
  std::vector<double> W;          // d x width
  std::vector<double> features;   // K x width, or empty where tastes are those for alternatives themselves
  std::size_t width = 0;
  bool own_tastes = false;
  std::span<const double> pair_coef, dissimilarity;
};

ChoiceParts parts_of(const ChoiceProblem& problem, std::span<const double> theta);

// out[k] += sum_j z_kj v_j, and out[j] += sum_k z_kj v_k.
void add_features(const ChoiceProblem& problem, std::span<const double> v, std::span<double> out);
void add_features_transposed(const ChoiceProblem& problem, std::span<const double> v, std::span<double> out);
std::vector<double> dense_features(const ChoiceProblem& problem);

// Rows [begin, end) of a problem, as choice_sums takes them.
class ChoicePiece {
 public:
  ChoicePiece(const ChoiceProblem& problem, const ChoiceParts& parts, std::size_t begin, std::size_t end);
  ChoicePiece(const ChoicePiece&) = delete;  // the question views the piece's own arrays
  ChoicePiece& operator=(const ChoicePiece&) = delete;

  std::size_t begin, end;
  std::vector<double> tastes;
  ChoiceQuestion question;

  std::size_t size() const { return end - begin; }

 private:
  std::vector<Offset> indptr_;
};

// Calls f(piece) for pieces of rows that have some `numbers` each.
template <class F>
void for_pieces(const ChoiceProblem& problem, const ChoiceParts& parts, std::size_t numbers, const F& f) {
  // 1 MB, which the second cache has; up to 32 MB for rows enough to be shared out to threads.
  constexpr std::size_t together = std::size_t{1} << 17, most = std::size_t{1} << 22, enough = 256;
  const std::size_t each = std::max(numbers, std::size_t{1});
  const std::size_t step = std::max({together / each, std::min(enough, most / each), std::size_t{1}});
  for (std::size_t begin = 0; begin < problem.n_rows(); begin += step) {
    ChoicePiece piece(problem, parts, begin, std::min(begin + step, problem.n_rows()));
    f(piece);
  }
}

// out (a x b) += A' B, where A is n x a and B is n x b; the same for any number of threads.
void add_products(const LeftFactor& A, std::size_t a, std::span<const double> B, std::size_t n, std::span<double> out,
                  int n_threads, Isa isa);

}  // namespace manyclass
