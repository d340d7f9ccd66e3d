// See predictions.hpp.
#include "manyclass/choice/predictions.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "manyclass/choice/rules.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

namespace {

constexpr double none = -std::numeric_limits<double>::infinity();

// Calls f(i, u) with the utilities of what row i may choose from, in the order of its list or of all, for each row.
template <class F>
void for_sets(const ChoiceProblem& problem, const ChoiceParts& parts, const F& f) {
  for_pieces(problem, parts, parts.width, [&](const ChoicePiece& piece) {
    constexpr std::size_t together = 16;
    parallel_for(problem.n_threads, (piece.size() + together - 1) / together, [&](std::size_t chunk) {
      std::vector<double> u;
      for (std::size_t p = chunk * together; p < std::min(piece.size(), (chunk + 1) * together); ++p) {
        const std::size_t i = piece.begin + p;
        poll(problem.data.set_size(i) + 64);
        u.resize(problem.data.set_size(i));
        const double* v = piece.tastes.data() + p * parts.width;
        run_with(problem.isa, [&] { set_utilities(problem.data, parts, v, i, u); });
        f(i, u);
      }
    });
  });
}

// The same with the utilities of all alternatives, -infinity for those that a row may not choose.
template <class F>
void for_rows(const ChoiceProblem& problem, const ChoiceParts& parts, const F& f) {
  for_sets(problem, parts, [&](std::size_t i, std::span<const double> own) {
    if (!problem.data.listed_only) return f(i, own);
    std::vector<double> u(problem.n_alternatives(), none);
    for (std::size_t p = 0; p < own.size(); ++p) u[problem.data.member(i, p)] = own[p];
    f(i, std::span<const double>(u));
  });
}

// Probabilities p of utilities u, of which at least one is finite.
class Probabilities {
 public:
  Probabilities(const ChoiceProblem& problem, const ChoiceParts& parts) : problem_(problem), parts_(parts) {}

  void operator()(std::span<const double> u, std::span<double> p) const {
    const ChoiceForm& form = problem_.form;
    if (form.model == "gumbel") {
      GumbelChoice{}.set(u, u.size(), p);
    } else if (form.model == "nested") {
      NestedChoice rule(parts_.dissimilarity);
      rule.nests = form.nests;
      rule.set(u, u.size(), p);
    } else {
      // Beyond 64 behind the foremost a probability is below 1e-8 of its last digits; -infinity is not allowed.
      const double least = largest_of(u) - 200;
      std::vector<double> psi(u.begin(), u.end());
      for (double& value : psi) value = std::max(value, least);
      utility_probabilities(noise_named(form.model), {psi, psi.size()}, false, 1, problem_.isa, p);
      for (std::size_t k = 0; k < u.size(); ++k) p[k] = u[k] > none ? p[k] : 0.0;
    }
  }

 private:
  const ChoiceProblem& problem_;
  const ChoiceParts& parts_;
};

}  // namespace

void utilities(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = make_parts(problem, theta);
  for_rows(problem, parts, [&](std::size_t i, std::span<const double> u) {
    std::ranges::copy(u, out.subspan(i * u.size(), u.size()).begin());
  });
}

void probabilities(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = make_parts(problem, theta);
  const Probabilities of(problem, parts);
  for_rows(problem, parts,
           [&](std::size_t i, std::span<const double> u) { of(u, out.subspan(i * u.size(), u.size())); });
}

void most_probable(const ChoiceProblem& problem, std::span<const double> theta, std::size_t m, std::span<Index> ids,
                   std::span<double> shares) {
  const std::size_t k = problem.n_alternatives();
  if (m > k) throw std::invalid_argument("there are fewer alternatives");
  const ChoiceParts parts = make_parts(problem, theta);
  const Probabilities of(problem, parts);
  for_rows(problem, parts, [&](std::size_t i, std::span<const double> u) {
    std::vector<double> p(k);
    std::vector<Index> order(k);
    of(u, p);
    std::iota(order.begin(), order.end(), Index{0});
    const auto at = [&p](Index id) { return p[static_cast<std::size_t>(id)]; };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(m), order.end(),
                      [&at](Index a, Index b) { return at(a) > at(b) || (at(a) == at(b) && a < b); });
    for (std::size_t j = 0; j < m; ++j) {
      ids[i * m + j] = order[j];
      shares[i * m + j] = at(order[j]);
    }
  });
}

double squared_spread(const ChoiceProblem& problem, std::span<const double> directions, std::size_t n) {
  const std::size_t size = problem.form.size();
  if (directions.size() != n * size) throw std::invalid_argument("directions do not fit the coefficients");
  const std::vector<double> no_constants(problem.n_alternatives());
  ChoiceProblem moved = problem;  // utilities are those of the coefficients alone
  moved.data.constants = no_constants;
  moved.data.offsets = {};
  std::vector<double> squares(problem.n_rows());
  for (std::size_t j = 0; j < n; ++j) {
    const ChoiceParts parts = make_parts(moved, directions.subspan(j * size, size));
    for_sets(moved, parts, [&](std::size_t i, std::span<const double> u) {
      const auto [low, high] = u.empty() ? std::ranges::minmax_result(0.0, 0.0) : std::ranges::minmax(u);
      squares[i] += (high - low) * (high - low);
    });
  }
  return squares.empty() ? 0.0 : std::ranges::max(squares);
}

}  // namespace manyclass
