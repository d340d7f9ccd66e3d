// Mixed logit: scores of persons, their coefficients, and mean probabilities.
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/choice/mixed.hpp"

namespace manyclass {

namespace {

using Theta = std::span<const double>;

// The draws of persons from `begin` on, (n, J, R).
PersonDraws draws_of(const Array<float>& draws, std::size_t begin) {
  if (draws.ndim() != 3) throw std::invalid_argument("draws must have three dimensions");
  const auto n = static_cast<std::size_t>(draws.shape(0));
  return {view(draws), static_cast<std::size_t>(draws.shape(2)), begin, begin + n};
}

// Two arrays that f(first, second) fills in.
template <class F>
auto filled_pair(const Shape& shape, const Shape& second_shape, const F& f) {
  Array<double> second(second_shape);
  const std::span<double> values = mutable_view(second);
  std::ranges::fill(values, 0.0);
  const auto first = filled(shape, [&](std::span<double> out) { f(out, values); });
  return std::pair(first, second);
}

}  // namespace

void bind_mixed(Module& m) {
  const auto draws = "draws"_a, begin = "begin"_a, theta = "theta"_a;
  Fields<MixedProblem> fields("MixedProblem");
  fields.needs<&MixedProblem::problem, &MixedProblem::persons, &MixedProblem::columns, &MixedProblem::signs,
               &MixedProblem::spreads, &MixedProblem::shifts, &MixedProblem::n_coefficients>();
  bind_struct(m, fields, [](const MixedProblem& mixed) { check(mixed); });
  Class<MixedProblem>(m.attr("MixedProblem"))
      .def(
          "person_scores",
          [](const MixedProblem& mixed, const Array<float>& values, std::size_t first, Theta coefficients) {
            const PersonDraws of = draws_of(values, first);
            return filled_pair({of.end - first}, {of.end - first, mixed.n_coefficients},
                               [&](auto out, auto scores) { person_scores(mixed, of, coefficients, out, scores); });
          },
          draws, begin, theta)
      .def(
          "person_coefficients",
          [](const MixedProblem& mixed, const Array<float>& values, std::size_t first, Theta coefficients) {
            const PersonDraws of = draws_of(values, first);
            const Shape shape{of.end - first, mixed.n_varying()};
            return filled_pair(shape, shape, [&](auto means, auto squares) {
              person_coefficients(mixed, of, coefficients, means, squares);
            });
          },
          draws, begin, theta)
      .def(
          "mean_probabilities",
          [](const MixedProblem& mixed, const Array<float>& values, std::size_t first, Theta coefficients) {
            const PersonDraws of = draws_of(values, first);
            if (of.end >= mixed.persons.size()) throw std::invalid_argument("draws do not fit the persons");
            const auto n = static_cast<std::size_t>(mixed.persons[of.end] - mixed.persons[first]);
            return filled_pair({n, mixed.problem.n_alternatives()}, {n}, [&](auto shares, auto logsums) {
              mean_probabilities(mixed, of, coefficients, shares, logsums);
            });
          },
          draws, begin, theta);
}

}  // namespace manyclass
