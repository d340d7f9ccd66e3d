// Choice models: what a form and data together answer, alternatives drawn, and what rows with drawn ones carry.
#include <algorithm>
#include <optional>

#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/choice/drawn_descent.hpp"
#include "manyclass/choice/draws.hpp"
#include "manyclass/choice/free.hpp"
#include "manyclass/choice/lists.hpp"
#include "manyclass/choice/predictions.hpp"
#include "manyclass/choice/problem.hpp"
#include "manyclass/choice/scores.hpp"

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
      .def(
          "names",
          [](const ChoiceForm& form, const std::vector<std::string>& choosers,
             const std::vector<std::string>& alternatives, const std::vector<std::string>& pairs,
             const std::vector<std::string>& labels, const std::vector<std::string>& groups,
             const std::vector<std::string>& nests) {
            return coefficient_names(form, {choosers, alternatives, pairs, labels, groups, nests});
          },
          "choosers"_a, "alternatives"_a, "pairs"_a, "labels"_a, "groups"_a, "nests"_a)
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

void bind_problem(Module& m) {
  const auto theta = "theta"_a, of = "of"_a, column = "column"_a, alternative = "alternative"_a;
  bind_struct(m, problem_fields(), [](const ChoiceProblem& problem) { check(problem); });
  Class<ChoiceProblem>(m.attr("ChoiceProblem"))
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
            const std::span<const double> values(directions.data(), static_cast<std::size_t>(directions.size()));
            const std::size_t n = values.size() / std::max<std::size_t>(problem.form.size(), 1);
            return released([&] { return squared_spread(problem, values, n); });
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

using Lists = ChoiceLists;

// An array that views a part of the core's object, which lives as long as the array does.
template <class T>
Array<T> part_of(const py::object& owner, const std::vector<T>& values, const Shape& shape) {
  Array<T> view(shape, values.data(), owner);
  view.attr("flags").attr("writeable") = false;
  return view;
}

// A sparse matrix as a tuple of indptr, indices and data, or a table, or numbers in the order of lists.
PairValues pair_values(const std::string& name, const py::object& given, const ListedPairs& pairs) {
  PairValues values;
  values.name = name;
  if (py::isinstance<py::tuple>(given)) {
    const auto parts = given.cast<py::tuple>();
    if (parts.size() == 3 && view_array(parts[0], values.indptr) && view_array(parts[1], values.alternatives) &&
        view_array(parts[2], values.values)) {
      return values;
    }
  } else if (view_array(given, values.values)) {
    const auto shape = given.attr("shape").cast<std::vector<std::size_t>>();
    const std::size_t n_listed = pairs.alternatives.size();
    values.listed = pairs.only && shape == Shape{n_listed};
    if (values.listed || shape == Shape{pairs.n_rows, pairs.n_alternatives}) return values;
    throw std::invalid_argument(
        py::str("{} has shape {}; it must be {}, or ({},) as available lists them")
            .format(name, given.attr("shape"), py::make_tuple(pairs.n_rows, pairs.n_alternatives), n_listed)
            .cast<std::string>());
  }
  throw py::type_error(name + " must be an array of float64 or a tuple (indptr, indices, data)");
}

Lists made_lists(std::size_t n_rows, std::size_t n_alternatives, const py::object& lists, const py::dict& features,
                 const py::object& offset, const py::object& unavailable) {
  ListedPairs pairs;
  pairs.n_rows = n_rows;
  pairs.n_alternatives = n_alternatives;
  pairs.only = !lists.is_none();
  if (pairs.only) {
    const auto parts = lists.cast<py::tuple>();
    if (parts.size() != 2 || !view_array(parts[0], pairs.indptr) || !view_array(parts[1], pairs.alternatives)) {
      throw py::type_error("lists must be a tuple (indptr, alternatives)");
    }
  }
  for (const auto& [name, given] : features) {
    pairs.features.push_back(pair_values(name.cast<std::string>(), py::reinterpret_borrow<py::object>(given), pairs));
  }
  if (!offset.is_none()) pairs.offset = pair_values("offset", offset, pairs);
  if (!unavailable.is_none()) pairs.unavailable = pair_values("unavailable", unavailable, pairs);
  return released([&] { return choice_lists(pairs); });
}

Lists with_features(const Lists& lists, const Matrix<const double>& features) {
  if (static_cast<std::size_t>(features.rows) != lists.alternatives.size()) {
    throw std::invalid_argument("features have " + std::to_string(features.rows) + " rows; " +
                                std::to_string(lists.alternatives.size()) + " pairs are listed");
  }
  Lists changed = lists;
  changed.features.assign(features.data.begin(), features.data.end());
  changed.n_features = features.width();
  return changed;
}

Lists drawn(const Lists& lists, std::span<const Offset> rows, std::span<const Index> chosen, Index n_alternatives,
            int n_draws, double share, std::span<const double> shares, std::uint64_t seed, std::uint64_t epoch,
            int n_threads) {
  const ChoiceDraws draws{&lists, rows, chosen, shares, share, n_alternatives, n_draws, seed, epoch, n_threads};
  return released([&] { return draw_choice_sets(draws); });
}

py::tuple fields_of(const Lists& lists) {
  return py::make_tuple(array_of(lists.indptr), array_of(lists.alternatives), array_of(lists.features),
                        lists.n_features, array_of(lists.offsets), lists.only, array_of(lists.log_weights));
}

Lists from_fields(const py::tuple& f) {
  return {f[0].cast<std::vector<Offset>>(), f[1].cast<std::vector<Index>>(),  f[2].cast<std::vector<double>>(),
          f[3].cast<std::size_t>(),         f[4].cast<std::vector<double>>(), f[5].cast<bool>(),
          f[6].cast<std::vector<double>>()};
}

void bind_lists(Module& m) {
  const auto n_alternatives = "n_alternatives"_a;
  const auto core = [](const py::object& self) -> const Lists& { return self.cast<const Lists&>(); };
  Class<Lists>(m, "ChoiceLists")
      .def(constructor(&made_lists), py::kw_only(), "n_rows"_a, n_alternatives, "lists"_a = py::none(),
           "features"_a = py::dict(), "offset"_a = py::none(), "unavailable"_a = py::none())
      .def_property_readonly("indptr",
                             [core](const py::object& self) {
                               const Lists& lists = core(self);
                               return part_of(self, lists.indptr, {lists.indptr.size()});
                             })
      .def_property_readonly("alternatives",
                             [core](const py::object& self) {
                               const Lists& lists = core(self);
                               return part_of(self, lists.alternatives, {lists.alternatives.size()});
                             })
      .def_property_readonly("features",
                             [core](const py::object& self) {
                               const Lists& lists = core(self);
                               return part_of(self, lists.features, {lists.alternatives.size(), lists.n_features});
                             })
      .def_property_readonly("offsets",
                             [core](const py::object& self) {
                               const Lists& lists = core(self);
                               return part_of(self, lists.offsets, {lists.offsets.size()});
                             })
      .def_readonly("only", &Lists::only)
      .def_property_readonly("log_weights",
                             [core](const py::object& self) {
                               const Lists& lists = core(self);
                               return part_of(self, lists.log_weights, {lists.log_weights.size()});
                             })
      .def_property_readonly("rows", [](const Lists& lists) { return array_of(rows_of_entries(lists)); })
      .def("take", lists_of_rows, "rows"_a)
      .def("filled", filled_lists, n_alternatives)
      .def("with_features", with_features, "features"_a)
      .def("draw", drawn, py::kw_only(), "rows"_a, "chosen"_a, n_alternatives, "n_draws"_a, "share"_a, "shares"_a,
           "seed"_a, "epoch"_a, "n_threads"_a)
      .by_pybind11()
      .def(py::pickle(&fields_of, &from_fields));
  m.def(
      "lists_of_ranges",
      [](const Matrix<const Offset>& ranges) {
        const auto [indptr, ids] = lists_of_ranges(ranges.data);
        return std::pair(array_of(indptr), array_of(ids));
      },
      "ranges"_a);
  m.def(
      "numbers_of_groups",
      [](std::span<const double> numbers, std::span<const Offset> groups,
         std::size_t n_groups) -> std::optional<Array<double>> {
        const auto of_groups = numbers_of_groups(numbers, groups, n_groups);
        return of_groups ? std::optional(array_of(*of_groups)) : std::nullopt;
      },
      "numbers"_a, "groups"_a, "n_groups"_a);
}

using Values = std::vector<double>;

// Where each coefficient stands among the free ones, values of fixed ones, and the ends of the free ones.
auto free_ones(const ChoiceForm& form, const std::vector<std::string>& names,
               const std::vector<Constraint>& constraints) {
  const FreeCoefficients free = free_coefficients(form, names, constraints);
  return std::tuple(array_of(free.place), array_of(free.fixed), array_of(free.low), array_of(free.high));
}

Values copied(std::span<const double> values) { return {values.begin(), values.end()}; }

struct DescentCall {
  std::span<const std::int64_t> place;
  std::span<const double> fixed, low, high, own, metric, ridge;
  std::size_t n_rows = 0;
  double n_steps = 0;
  std::string noise;
};

Fields<DescentCall> descent_fields() {
  using Of = DescentCall;
  return Fields<Of>("DrawnDescent")
      .needs<&Of::place, &Of::fixed, &Of::low, &Of::high, &Of::own, &Of::metric, &Of::ridge, &Of::n_rows, &Of::n_steps,
             &Of::noise>();
}

DrawnDescent descent_of(const DescentCall& call) {
  FreeCoefficients free{
      {call.place.begin(), call.place.end()}, copied(call.fixed), copied(call.low), copied(call.high)};
  return DrawnDescent({std::move(free), copied(call.own), copied(call.metric), copied(call.ridge), call.n_rows,
                       call.n_steps, call.noise});
}

void bind_descent(Module& m) {
  const auto rows = "rows"_a, problem = "problem"_a, visits = "visits"_a;
  const Fields<DescentCall> fields = descent_fields();
  list_fields(m, fields);
  Class<DrawnDescent>(m, "DrawnDescent")
      .def(constructor([fields](const py::kwargs& given) { return descent_of(fields.of(given)); }))
      .def(
          "look",
          [](DrawnDescent& self, std::span<const Index> of, const ChoiceProblem& by, int n) {
            released([&] { self.look(of, by, n); });
          },
          rows, problem, visits)
      .def(
          "step",
          [](DrawnDescent& self, std::span<const Index> of, const ChoiceProblem& by, int n) {
            released([&] { self.step(of, by, n); });
          },
          rows, problem, visits)
      .def("end_pass", &DrawnDescent::end_pass)
      .def("average_passes", [](DrawnDescent& self) { return array_of(self.average_passes()); })
      .def("variance_of_weights", &DrawnDescent::variance_of_weights, rows, "one"_a, "other"_a, visits)
      .def(
          "difference",
          [](const DrawnDescent& self, std::span<const Index> of, const ChoiceProblem& by) {
            return array_of(self.difference(of, by));
          },
          rows, problem)
      .def("theta", [](const DrawnDescent& self) { return array_of(self.theta()); });
}

}  // namespace

void bind_choice(Module& m) {
  bind_form(m);
  bind_problem(m);
  bind_lists(m);
  m.def("free_coefficients", free_ones, "form"_a, "names"_a, "constraints"_a);
  bind_descent(m);
}

}  // namespace manyclass
