// Choice models: what a form and data together answer, and alternatives drawn.
#include <algorithm>

#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/choice/derivatives.hpp"
#include "manyclass/choice/draws.hpp"
#include "manyclass/choice/predictions.hpp"
#include "manyclass/choice/rules.hpp"

namespace manyclass {

namespace {

using Theta = std::span<const double>;

void bind_form(Module& m) {
  Fields<ChoiceForm> fields("ChoiceForm");
  fields.needs<&ChoiceForm::model, &ChoiceForm::n_chooser_features, &ChoiceForm::n_alternative_features,
               &ChoiceForm::n_pair_features, &ChoiceForm::n_own_tastes, &ChoiceForm::rank, &ChoiceForm::groups,
               &ChoiceForm::n_groups, &ChoiceForm::nests, &ChoiceForm::n_nests>();
  bind_struct(m, fields, [](const ChoiceForm& form) { check(form); });
  Class<ChoiceForm>(m.attr("ChoiceForm"))
      .def("sizes",
           [](const ChoiceForm& form) {
             return std::tuple(form.n_alternative_features, form.n_pair_features, form.n_interactions(),
                               form.n_constants(), form.n_nests);
           })
      .def("has_scores", &ChoiceForm::has_scores)
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

// An answer that has a row of numbers for each row of the problem, or one number where there is no width.
template <auto answer>
auto by_row(std::size_t (*width)(const ChoiceProblem&) = nullptr) {
  return [width](const ChoiceProblem& problem, Theta theta) {
    const Shape shape = width ? Shape{problem.n_rows(), width(problem)} : Shape{problem.n_rows()};
    return filled(shape, [&](std::span<double> out) { answer(problem, theta, out); });
  };
}

std::size_t n_alternatives(const ChoiceProblem& problem) { return problem.n_alternatives(); }
std::size_t n_coefficients(const ChoiceProblem& problem) { return problem.form.size(); }

auto value_and_gradient(const ChoiceProblem& problem, Theta theta) {
  double value = 0;
  const auto gradient = filled({problem.form.size()}, [&](auto out) { value = objective(problem, theta, out); });
  return std::pair(value, gradient);
}

Array<double> second_derivatives(const ChoiceProblem& problem, Theta theta) {
  const std::size_t n = problem.form.size();
  return filled({n, n}, [&](std::span<double> out) { hessian(problem, theta, out); });
}

auto sums_of_draws(const ChoiceProblem& problem, Theta theta, Theta log_normalizers) {
  double value = 0;
  auto row_losses = empty_array<double>(problem.n_rows());
  const std::span<double> rows = mutable_view(row_losses);
  const auto gradient = filled({problem.form.size()}, [&](std::span<double> out) {
    value = double_sum(problem, theta, log_normalizers, rows, out);
  });
  return std::tuple(value, gradient, row_losses);
}

auto products_of_draws(const ChoiceProblem& problem, Theta theta, Theta node_weights) {
  Array<double> products(Shape{problem.n_rows(), NoiseNodes::size});
  const std::span<double> nodes = mutable_view(products);
  const auto gradient = filled({problem.form.size()},
                               [&](std::span<double> out) { log_products(problem, theta, node_weights, nodes, out); });
  return std::pair(products, gradient);
}

auto best(const ChoiceProblem& problem, Theta theta, std::size_t n) {
  Array<Index> ids(Shape{problem.n_rows(), n});
  const std::span<Index> of_ids = mutable_view(ids);
  const auto shares =
      filled({problem.n_rows(), n}, [&](std::span<double> out) { most_probable(problem, theta, n, of_ids, out); });
  return std::pair(ids, shares);
}

void bind_problem(Module& m) {
  const auto theta = "theta"_a;
  bind_struct(m, problem_fields(), [](const ChoiceProblem& problem) { check(problem); });
  Class<ChoiceProblem>(m.attr("ChoiceProblem"))
      .def("losses", by_row<&losses>(), theta)
      .def("objective", value_and_gradient, theta)
      .def("inclusive_values", by_row<&inclusive_values>(), theta)
      .def("double_sum", sums_of_draws, theta, "log_normalizers"_a)
      .def("log_products", products_of_draws, theta, "node_weights"_a)
      .def("scores", by_row<&scores>(n_coefficients), theta)
      .def("hessian", second_derivatives, theta)
      .def("utilities", by_row<&utilities>(n_alternatives), theta)
      .def("probabilities", by_row<&probabilities>(n_alternatives), theta)
      .def("most_probable", best, theta, "n"_a)
      .def(
          "squared_spread",
          [](const ChoiceProblem& problem, const Matrix<const double>& directions) {
            const auto n = static_cast<std::size_t>(directions.rows);
            return released([&] { return squared_spread(problem, directions.data, n); });
          },
          "directions"_a);
}

auto draw(const ChoiceDraws& draws) {
  const DrawnSets sets = released([&] { return draw_choice_sets(draws); });
  return std::tuple(array_of(sets.indptr), array_of(sets.alternatives), array_of(sets.log_weights),
                    array_of(sets.entries));
}

}  // namespace

void bind_choice(Module& m) {
  bind_form(m);
  bind_problem(m);
  Fields<ChoiceDraws> draws("draw_choice_sets");
  draws.needs<&ChoiceDraws::indptr, &ChoiceDraws::alternatives, &ChoiceDraws::listed_only, &ChoiceDraws::rows,
              &ChoiceDraws::chosen, &ChoiceDraws::shares, &ChoiceDraws::share, &ChoiceDraws::n_draws,
              &ChoiceDraws::seed, &ChoiceDraws::epoch, &ChoiceDraws::n_threads>();
  bind_function(m, draws, draw);
}

}  // namespace manyclass
