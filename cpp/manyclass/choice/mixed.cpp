// See mixed.hpp.
#include "manyclass/choice/mixed.hpp"

#include <algorithm>
#include <stdexcept>

#include "manyclass/choice/mixed_person.hpp"
#include "manyclass/core/parallel.hpp"

namespace manyclass {

namespace {

using mixed::as_size;
using mixed::Person;

// Calls f(worker, person) for persons, loaded.
template <class F>
void for_persons(const MixedProblem& mixed, const PersonDraws& draws, std::span<const double> theta, bool with_choices,
                 const F& f) {
  if (theta.size() != mixed.n_coefficients) throw std::invalid_argument("theta does not fit the coefficients");
  if (draws.begin > draws.end || draws.end + 1 > mixed.persons.size() || draws.n_draws == 0 ||
      draws.values.size() != (draws.end - draws.begin) * mixed.n_varying() * draws.n_draws) {
    throw std::invalid_argument("draws do not fit the persons");
  }
  if (with_choices && mixed.problem.data.chosen.empty()) throw std::invalid_argument("choices are not known");
  constexpr std::size_t together = 16;
  const std::size_t n = draws.end - draws.begin;
  parallel_for(mixed.problem.n_threads, (n + together - 1) / together, [&](std::size_t chunk) {
    Person person(mixed, draws, theta);
    for (std::size_t at = chunk * together; at < std::min(n, (chunk + 1) * together); ++at) {
      person.load(draws.begin + at, with_choices);
      f(person, at);
    }
  });
}

}  // namespace

void check(const MixedProblem& mixed) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
  };
  check(mixed.problem);
  const ChoiceForm& form = mixed.problem.form;
  const std::size_t n = mixed.n_varying();
  const auto in_theta = [&](Index place) { return place >= -1 && place < static_cast<Index>(mixed.n_coefficients); };
  require(form.model == "gumbel" && form.rank <= 0, "a mixed logit has Gumbel noise, no nests and no W of low rank");
  require(!mixed.persons.empty() && mixed.persons.front() == 0 && std::ranges::is_sorted(mixed.persons) &&
              mixed.persons.back() == static_cast<Offset>(mixed.problem.data.n_rows) &&
              std::ranges::adjacent_find(mixed.persons) == mixed.persons.end(),
          "persons do not fit the rows");
  require(
      std::ranges::all_of(mixed.columns, [&](Index c) { return c >= 0 && static_cast<std::size_t>(c) < form.size(); }),
      "a coefficient that varies is none of the form");
  require(mixed.signs.size() == n && mixed.spreads.size() == n * n &&
              mixed.shifts.size() == n * form.n_chooser_features && mixed.n_coefficients >= form.size() &&
              std::ranges::all_of(mixed.spreads, in_theta) && std::ranges::all_of(mixed.shifts, in_theta),
          "spreads or shifts do not fit the coefficients that vary");
}

void person_scores(const MixedProblem& mixed, const PersonDraws& draws, std::span<const double> theta,
                   std::span<double> log_likelihoods, std::span<double> scores) {
  const std::size_t n = mixed.n_coefficients;
  for_persons(mixed, draws, theta, true,
              [&](Person& person, std::size_t at) { log_likelihoods[at] = person.score(scores.subspan(at * n, n)); });
}

void person_coefficients(const MixedProblem& mixed, const PersonDraws& draws, std::span<const double> theta,
                         std::span<double> means, std::span<double> squares) {
  const std::size_t n = mixed.n_varying();
  for_persons(mixed, draws, theta, true, [&](Person& person, std::size_t at) {
    person.posterior(means.subspan(at * n, n), squares.subspan(at * n, n));
  });
}

void mean_probabilities(const MixedProblem& mixed, const PersonDraws& draws, std::span<const double> theta,
                        std::span<double> probabilities, std::span<double> logsums) {
  const std::size_t first = as_size(mixed.persons[draws.begin]), k = mixed.problem.n_alternatives();
  for_persons(mixed, draws, theta, false, [&](Person& person, std::size_t at) {
    const std::size_t row = as_size(mixed.persons[draws.begin + at]) - first;
    person.predict(probabilities.subspan(row * k), logsums.subspan(row));
  });
}

}  // namespace manyclass
