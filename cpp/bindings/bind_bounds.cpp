// Bounds of log-probabilities from scores, and what follows from counts and comparisons of classes.
#include <optional>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/class_counts.hpp"
#include "manyclass/evaluate/sampled_bounds.hpp"
#include "manyclass/evaluate/softmax_bounds.hpp"
#include "manyclass/exact/local_family.hpp"
#include "manyclass/exact/paired_comparisons.hpp"
#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

namespace {

auto bounds_of_utilities(const std::string& noise, const Matrix<const double>& f, std::span<const Index> labels,
                         std::span<const double> mu, std::span<const double> s) {
  if (static_cast<std::size_t>(f.rows) != labels.size()) throw std::invalid_argument("f and labels differ in length");
  check_classes(labels, f.width());
  Array<double> values(f.rows), gradients({f.rows, f.cols}), parameters({f.rows, Index{2}});
  const std::span<double> of_values = mutable_view(values), of_f = mutable_view(gradients),
                          of_q = mutable_view(parameters);
  released([&] {
    if (noise == "gumbel") {
      gumbel_bounds({f.data, f.width(), labels}, mu, s, {of_values, of_f, of_q});
    } else {
      utility_bounds(noise, f.data, labels, mu, s, 1, best_isa(), {of_values, of_f, of_q});
    }
  });
  return std::tuple(values, gradients, parameters);
}

// Rows of scores and their classes, the arrays that bounds are written to, and views of these.
struct BoundArrays {
  BoundArrays(const Matrix<const double>& f, std::span<const Index> labels)
      : rows{f.data, f.width(), labels}, values(f.rows), gradients({f.rows, f.cols}), slopes(f.rows) {}

  ScoreBounds out() { return {mutable_view(values), mutable_view(gradients), mutable_view(slopes)}; }

  ScoreRows rows;
  Array<double> values, gradients, slopes;
};

auto bounds_of_blocks(const Matrix<const double>& f, std::span<const Index> labels, std::span<const Index> blocks) {
  BoundArrays arrays(f, labels);
  released([&, out = arrays.out()] { block_bounds(arrays.rows, blocks, out); });
  return std::pair(arrays.values, arrays.gradients);
}

auto bounds_of_bouchard(const Matrix<const double>& f, std::span<const Index> labels, std::span<const double> a) {
  BoundArrays arrays(f, labels);
  released([&, out = arrays.out()] { bouchard_bounds(arrays.rows, a, out); });
  return std::tuple(arrays.values, arrays.gradients, arrays.slopes);
}

auto slopes_of_tangents(const Matrix<const double>& f, std::span<const Index> labels, std::span<const double> u) {
  BoundArrays arrays(f, labels);
  released([&, out = arrays.out()] { tangent_slopes(arrays.rows, u, out); });
  return std::pair(arrays.values, arrays.gradients);
}

auto sampled_bounds(const Matrix<const double>& f, std::span<const Index> labels, std::span<const Index> drawn,
                    std::span<const double> p) {
  BoundArrays arrays(f, labels);
  released([&, out = arrays.out()] { sampled_one_vs_each(arrays.rows, drawn, p, out); });
  return std::pair(arrays.values, arrays.gradients);
}

auto proposal_of(const Matrix<const double>& f, std::span<const Index> labels, double uniform) {
  BoundArrays arrays(f, labels);
  released([&, out = arrays.out()] { one_vs_each_proposal(arrays.rows, uniform, out.gradients); });
  return arrays.gradients;
}

auto variances_of(const Matrix<const double>& f, std::span<const Index> labels, std::span<const double> p) {
  BoundArrays arrays(f, labels);
  released([&, out = arrays.out()] { one_vs_each_variances(arrays.rows, p, out.values, out.slopes); });
  return std::pair(arrays.values, arrays.slopes);
}

PairedWins paired_wins(std::span<const Index> winner, std::span<const Index> loser, std::span<const double> wins,
                       std::size_t n_classes) {
  const PairedWins pairs{winner, loser, wins, n_classes};
  check(pairs);
  return pairs;
}

auto likelihood_of(std::span<const Index> winner, std::span<const Index> loser, std::span<const double> wins,
                   std::span<const double> f) {
  const PairedWins pairs = paired_wins(winner, loser, wins, f.size());
  auto gradient = empty_array<double>(f.size());
  const double value = log_likelihood(pairs, f, mutable_view(gradient));
  return std::pair(value, gradient);
}

// (scores, strong components of the wins, classes in that of class 0); there are scores where it is the only one.
auto scores_of(std::span<const Index> winner, std::span<const Index> loser, std::span<const double> wins,
               std::size_t n_classes, double tol) {
  const PairedWins pairs = paired_wins(winner, loser, wins, n_classes);
  const GroupsOfWins groups = groups_of_wins(pairs);
  std::vector<double> scores;
  if (groups.n_groups == 1) scores = released([&] { return maximum_likelihood_scores(pairs, tol); });
  return std::tuple(array_of(scores), groups.n_groups, groups.n_with_first);
}

}  // namespace

void bind_bounds(Module& m) {
  const auto labels = "labels"_a, winner = "winner"_a, loser = "loser"_a, wins = "wins"_a;
  m.def("utility_bounds", bounds_of_utilities, py::kw_only(), "noise"_a, "f"_a, labels, "mu"_a, "s"_a);
  m.def("block_bounds", bounds_of_blocks, "f"_a, labels, "blocks"_a);
  m.def("bouchard_bounds", bounds_of_bouchard, "f"_a, labels, "a"_a);
  m.def(
      "bouchard_locations",
      [](const Matrix<const double>& f) {
        return array_of(released([&] { return bouchard_locations(f.data, f.width()); }));
      },
      "f"_a);
  m.def("sampled_one_vs_each", sampled_bounds, "f"_a, labels, "drawn"_a, "p"_a);
  m.def("one_vs_each_proposal", proposal_of, "f"_a, labels, "uniform"_a);
  m.def("one_vs_each_variances", variances_of, "f"_a, labels, "p"_a);
  m.def("tangent_slopes", slopes_of_tangents, "f"_a, labels, "u"_a);
  m.def(
      "block_numbers",
      [](std::span<const Index> classes, std::span<const Offset> sizes, std::span<const Index> of_rows,
         std::size_t n_classes) { return array_of(block_numbers(classes, sizes, of_rows, n_classes)); },
      "classes"_a, "sizes"_a, labels, "n_classes"_a);
  m.def(
      "predictive_scores",
      [](const Matrix<const double>& f, std::span<const Index> of_rows) {
        return predictive_scores({f.data, f.width(), of_rows});
      },
      "f"_a, labels);
  m.def(
      "one_vs_each_of_classes",
      [](std::span<const double> f) { return array_of(released([&] { return one_vs_each_of_classes(f); })); }, "f"_a);
  m.def("maximum_one_vs_each", maximum_one_vs_each, "counts"_a);
  m.def("largest_log_normalizer", largest_log_normalizer, "max_norm"_a, "largest_x"_a, "n_classes"_a);
  m.def(
      "double_sum_constants",
      [](std::span<const double> counts, double largest_x, double alpha, std::optional<double> max_norm) {
        const DoubleSumConstants constants = double_sum_constants(counts, largest_x, alpha, max_norm);
        return std::tuple(constants.weight_norm, constants.log_normalizer, constants.gradient_norm,
                          constants.strong_convexity);
      },
      "counts"_a, "largest_x"_a, "alpha"_a, "max_norm"_a);
  m.def("paired_log_likelihood", likelihood_of, winner, loser, wins, "f"_a);
  m.def("paired_scores", scores_of, winner, loser, wins, "n_classes"_a, "tol"_a);
}

}  // namespace manyclass
