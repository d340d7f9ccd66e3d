// Choice models: what a form and data together answer, alternatives drawn, and what rows with drawn ones carry.
#include <algorithm>

#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/choice/drawn_sums.hpp"
#include "manyclass/choice/draws.hpp"
#include "manyclass/choice/predictions.hpp"
#include "manyclass/choice/problem.hpp"
#include "manyclass/choice/scores.hpp"

namespace manyclass {

namespace {

using Theta = std::span<const double>;
using Shape = std::vector<std::size_t>;

// An array of this shape that f(out) fills in.
template <class F>
Array<double> filled(const Shape& shape, const F& f) {
  Array<double> out(shape);
  std::ranges::fill(mutable_view(out), 0.0);
  const std::span<double> values = mutable_view(out);
  released([&] { f(values); });
  return out;
}

void bind_form(py::module_& m) {
  Fields<ChoiceForm> fields("ChoiceForm");
  fields.needs<&ChoiceForm::model, &ChoiceForm::n_chooser_features, &ChoiceForm::n_alternative_features,
               &ChoiceForm::n_pair_features, &ChoiceForm::n_own_tastes, &ChoiceForm::rank, &ChoiceForm::groups,
               &ChoiceForm::n_groups, &ChoiceForm::nests, &ChoiceForm::n_nests>();
  bind_struct(m, fields, [](const ChoiceForm& form) { check(form); });
  py::class_<ChoiceForm>(m.attr("ChoiceForm"))
      .def("sizes",
           [](const ChoiceForm& form) {
             return std::tuple(form.n_alternative_features, form.n_pair_features, form.n_interactions(),
                               form.n_constants(), form.n_nests);
           })
      .def("has_scores", [](const ChoiceForm& form) { return has_scores(form); })
      .def("has_metric", [](const ChoiceForm& form) { return has_scores(with_full_interactions(form)); })
      .def(
          "interactions",
          [](const ChoiceForm& form, Theta theta) {
            if (theta.size() != form.size()) throw std::invalid_argument("theta does not fit the form");
            return array_of(interactions(form, theta)).reshape({form.n_chooser_features, form.width()});
          },
          "theta"_a);
}

Fields<ChoiceProblem> problem_fields() {
  Fields<ChoiceData> data("ChoiceData");
  data.needs<&ChoiceData::n_rows, &ChoiceData::X, &ChoiceData::Z, &ChoiceData::constants, &ChoiceData::indptr,
             &ChoiceData::alternatives, &ChoiceData::pair_features, &ChoiceData::offsets, &ChoiceData::listed_only>();
  data.takes<&ChoiceData::Z_indptr, &ChoiceData::Z_indices, &ChoiceData::log_weights, &ChoiceData::chosen,
             &ChoiceData::weights>();
  Fields<ChoiceProblem> fields("ChoiceProblem");
  fields.needs<&ChoiceProblem::form, &ChoiceProblem::n_threads>();
  fields.takes<&ChoiceProblem::isa>();
  return fields.with<&ChoiceProblem::data>(data);
}

MovedFeature moved(const ChoiceProblem& problem, const std::string& of, std::size_t column, Index alternative) {
  if (alternative < -1 || alternative >= static_cast<Index>(problem.n_alternatives())) {
    throw std::invalid_argument("the alternative is out of range");
  }
  return {of, column, alternative};
}

// An answer that is a number for each row, or a row of K for each.
template <auto question>
auto by_row() {
  return [](const ChoiceProblem& problem, Theta theta) {
    return filled({problem.n_rows()}, [&](std::span<double> out) { question(problem, theta, out); });
  };
}
template <auto question>
auto by_row(std::size_t (*width)(const ChoiceProblem&)) {
  return [width](const ChoiceProblem& problem, Theta theta) {
    return filled({problem.n_rows(), width(problem)}, [&](std::span<double> out) { question(problem, theta, out); });
  };
}

// An answer that is a number for each pair of coefficients.
template <auto question>
auto by_coefficients() {
  return [](const ChoiceProblem& problem, Theta theta) {
    const std::size_t n = problem.form.size();
    return filled({n, n}, [&](std::span<double> out) { question(problem, theta, out); });
  };
}

std::size_t n_alternatives(const ChoiceProblem& problem) { return problem.n_alternatives(); }
std::size_t n_coefficients(const ChoiceProblem& problem) { return problem.form.size(); }

auto value_and_gradient(const ChoiceProblem& problem, Theta theta) {
  double value = 0;
  const auto gradient = filled({problem.form.size()}, [&](auto out) { value = objective(problem, theta, out); });
  return std::pair(value, gradient);
}

auto sums_of_draws(const ChoiceProblem& problem, Theta theta, std::span<const double> log_normalizers) {
  double value = 0;
  auto log_sums_of_rows = empty_array<double>(problem.n_rows());
  const std::span<double> sums = mutable_view(log_sums_of_rows);
  const auto gradient = filled({problem.form.size()}, [&](std::span<double> out) {
    value = double_sum(problem, theta, log_normalizers, sums, out);
  });
  return std::tuple(value, gradient, log_sums_of_rows);
}

auto best(const ChoiceProblem& problem, Theta theta, std::size_t n) {
  Array<Index> ids(Shape{problem.n_rows(), n});
  const std::span<Index> of_ids = mutable_view(ids);
  const auto shares =
      filled({problem.n_rows(), n}, [&](std::span<double> out) { most_probable(problem, theta, n, of_ids, out); });
  return std::pair(ids, shares);
}

Array<double> effects(const ChoiceProblem& problem, Theta theta, const std::string& of, std::size_t column,
                      Index alternative) {
  const MovedFeature feature = moved(problem, of, column, alternative);
  return filled({problem.n_rows(), problem.n_alternatives()},
                [&](std::span<double> out) { marginal_effects(problem, theta, feature, out); });
}

auto elasticities(const ChoiceProblem& problem, Theta theta, const std::string& of, std::size_t column,
                  Index alternative) {
  const MovedFeature feature = moved(problem, of, column, alternative);
  if (feature.of == "chooser" || feature.alternative < 0) throw std::invalid_argument("an alternative's feature moves");
  Array<double> shares(Shape{problem.n_alternatives()});
  const std::span<double> of_shares = mutable_view(shares);
  std::ranges::fill(of_shares, 0.0);
  const auto sums = filled({problem.n_alternatives()},
                           [&](std::span<double> out) { elasticity_sums(problem, theta, feature, out, of_shares); });
  return std::pair(sums, shares);
}

void bind_problem(py::module_& m) {
  const auto theta = "theta"_a, of = "of"_a, column = "column"_a, alternative = "alternative"_a;
  bind_struct(m, problem_fields(), [](const ChoiceProblem& problem) { check(problem); });
  py::class_<ChoiceProblem>(m.attr("ChoiceProblem"))
      .def("losses", by_row<&losses>(), theta)
      .def("objective", value_and_gradient, theta)
      .def("inclusive_values", by_row<&inclusive_values>(), theta)
      .def("log_sums", by_row<&log_sums>(), theta)
      .def("double_sum", sums_of_draws, theta, "log_normalizers"_a)
      .def("scores", by_row<&scores>(n_coefficients), theta)
      .def("hessian", by_coefficients<&hessian>(), theta)
      .def("metric", by_coefficients<&metric>(), theta)
      .def("scales",
           [](const ChoiceProblem& problem) {
             return filled({problem.form.size()}, [&](std::span<double> out) { scales(problem, out); });
           })
      .def(
          "squared_spread",
          [](const ChoiceProblem& problem, const Array<double>& directions) {
            const std::span<const double> given(directions.data(), static_cast<std::size_t>(directions.size()));
            const std::size_t n = given.size() / std::max<std::size_t>(problem.form.size(), 1);
            return released([&] { return squared_spread(problem, given, n); });
          },
          "directions"_a)
      .def("utilities", by_row<&utilities>(n_alternatives), theta)
      .def("probabilities", by_row<&probabilities>(n_alternatives), theta)
      .def("most_probable", best, theta, "n"_a)
      .def("marginal_effects", effects, theta, of, column, alternative)
      .def("elasticity_sums", elasticities, theta, of, column, alternative)
      .def("log_set_sizes", [](const ChoiceProblem& problem) {
        return filled({problem.n_rows()}, [&](std::span<double> out) { log_set_sizes(problem, out); });
      });
}

Fields<ChoiceDraws> draws_fields() {
  Fields<ChoiceDraws> fields("draw_choice_sets");
  fields.needs<&ChoiceDraws::rows, &ChoiceDraws::chosen, &ChoiceDraws::n_alternatives, &ChoiceDraws::n_draws,
               &ChoiceDraws::seed, &ChoiceDraws::epoch, &ChoiceDraws::n_threads>();
  fields.takes<&ChoiceDraws::begins, &ChoiceDraws::ends, &ChoiceDraws::alternatives, &ChoiceDraws::pair_features,
               &ChoiceDraws::n_pair_features, &ChoiceDraws::offsets, &ChoiceDraws::listed_only, &ChoiceDraws::past,
               &ChoiceDraws::shares, &ChoiceDraws::share>();
  return fields;
}

auto drawn(const ChoiceDraws& draws) {
  const DrawnSets sets = released([&] { return draw_choice_sets(draws); });
  return std::tuple(array_of(sets.indptr), array_of(sets.alternatives), array_of(sets.log_weights),
                    array_of(sets.offsets),
                    array_of(sets.pair_features).reshape({sets.alternatives.size(), draws.n_pair_features}));
}

// What both kinds of sums that rows with drawn alternatives carry answer.
template <class Sums>
void bind_sums(py::class_<Sums>& sums) {
  const auto problem = "problem"_a, rows = "rows"_a, theta = "theta"_a, visits = "visits"_a;
  sums.def(
      "visit",
      [](Sums& own, const ChoiceProblem& of, std::span<const Index> ids, Theta at, int before) {
        released([&] { own.visit(of, ids, at, before); });
      },
      problem, rows, theta, visits);
  sums.def(
      "step",
      [](Sums& own, const ChoiceProblem& of, std::span<const Index> ids, Theta at, int before) {
        double value = 0;
        const auto gradient = filled({of.form.size()}, [&](auto out) { value = own.step(of, ids, at, before, out); });
        return std::pair(value, gradient);
      },
      problem, rows, theta, visits);
}

void bind_drawn(py::module_& m) {
  py::class_<DrawnSums> sums(m, "DrawnSums");
  sums.def(py::init<std::size_t>(), "n"_a);
  bind_sums(sums);
  sums.def(
      "log_normalizers",
      [](const DrawnSums& own, std::span<const Index> rows, int visits) {
        return filled({rows.size()}, [&](std::span<double> out) { own.log_normalizers(rows, visits, out); });
      },
      "rows"_a, "visits"_a);
  py::class_<DrawnProducts> products(m, "DrawnProducts");
  products.def(py::init<const std::string&, std::size_t>(), "noise"_a, "n"_a);
  bind_sums(products);
  products.def(
      "difference",
      [](const DrawnProducts& own, const ChoiceProblem& problem, std::span<const Index> rows, Theta theta) {
        return filled({problem.form.size()}, [&](auto out) { own.difference(problem, rows, theta, out); });
      },
      "problem"_a, "rows"_a, "theta"_a);
}

}  // namespace

void bind_choice(py::module_& m) {
  bind_form(m);
  bind_problem(m);
  bind_function(m, draws_fields(), drawn);
  bind_drawn(m);
}

}  // namespace manyclass
