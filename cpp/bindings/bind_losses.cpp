// Losses of points with several labels: of rows of scores, and of one point as the core sees it, for the tests.
#include <algorithm>
#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "manyclass/objective/label_loss.hpp"

namespace manyclass {

namespace {

using namespace py::literals;

// Rows of scores, each with its labels in rising order.
struct LabelledRows {
  std::span<const float> scores;
  std::size_t n_classes;
  std::span<const Offset> indptr;
  std::span<const Index> ids;

  std::size_t size() const { return indptr.size() - 1; }
  std::span<const float> row(std::size_t i) const { return scores.subspan(i * n_classes, n_classes); }
  std::span<const Index> labels(std::size_t i) const {
    return ids.subspan(static_cast<std::size_t>(indptr[i]), static_cast<std::size_t>(indptr[i + 1] - indptr[i]));
  }
};

LabelledRows labelled_rows(const Array<float>& scores, const Array<Offset>& indptr, const Array<Index>& ids) {
  const DenseView z = dense_view(scores);
  const LabelledRows rows{z.data, static_cast<std::size_t>(z.n_cols), view(indptr), view(ids)};
  if (indptr.size() != static_cast<py::ssize_t>(z.rows) + 1 || rows.indptr.front() != 0 ||
      rows.indptr.back() != static_cast<Offset>(ids.size()) || !std::ranges::is_sorted(rows.indptr)) {
    throw std::invalid_argument("the labels do not describe one list for each row");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto labels = rows.labels(i);
    if (labels.empty() || labels.front() < 0 || labels.back() >= z.n_cols ||
        std::ranges::adjacent_find(labels, std::ranges::greater_equal{}) != labels.end()) {
      throw std::invalid_argument("the labels of row " + std::to_string(i) + " are not distinct, sorted and in range");
    }
  }
  return rows;
}

// Calls f(begin, end) for each stretch of classes between labels.
template <class F>
void between(std::span<const Index> labels, std::size_t n_classes, const F& f) {
  std::size_t begin = 0;
  for (const Index label : labels) {
    f(begin, static_cast<std::size_t>(label));
    begin = static_cast<std::size_t>(label) + 1;
  }
  f(begin, n_classes);
}

// (values, gradients) of loss_of(i) at row i.
template <class LossOf>
py::tuple each_row(const LabelledRows& rows, Isa isa, const LossOf& loss_of) {
  const auto n = static_cast<py::ssize_t>(rows.size());
  Array<double> values(n);
  Array<float> gradients({n, static_cast<py::ssize_t>(rows.n_classes)});
  const std::span<double> value = mutable_view(values);
  const std::span<float> gradient = mutable_view(gradients);
  {
    const py::gil_scoped_release nogil;
    LossMemory memory;
    std::vector<float> z(rows.n_classes), g(rows.n_classes);  // the labels, then the wrong classes
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto labels = rows.labels(i);
      const auto from = rows.row(i);
      const auto to = gradient.subspan(i * rows.n_classes, rows.n_classes);
      const std::size_t p = labels.size();
      for (std::size_t k = 0; k < p; ++k) z[k] = from[static_cast<std::size_t>(labels[k])];
      std::size_t at = p;
      between(labels, rows.n_classes, [&](std::size_t begin, std::size_t end) {
        std::ranges::copy(from.subspan(begin, end - begin), z.data() + at);
        at += end - begin;
      });
      const LabelScores scores{std::span(z).first(p), std::span(z).subspan(p)};
      LabelGradient slopes{std::span(g).first(p), std::span(g).subspan(p)};
      const auto loss = loss_of(i);
      run_with(isa, [&] { value[i] = loss(scores, slopes, memory); });
      for (std::size_t k = 0; k < p; ++k) to[static_cast<std::size_t>(labels[k])] = g[k];
      at = p;
      between(labels, rows.n_classes, [&](std::size_t begin, std::size_t end) {
        std::ranges::copy(std::span(g).subspan(at, end - begin), to.data() + begin);
        at += end - begin;
      });
    }
  }
  return py::make_tuple(values, gradients);
}

py::tuple losses(const Array<float>& scores, const Array<Offset>& indptr, const Array<Index>& ids,
                 const std::string& loss, double smoothing, const std::string& isa) {
  const LabelledRows rows = labelled_rows(scores, indptr, ids);
  return std::visit([&](const auto& l) { return each_row(rows, isa_named(isa), [&](std::size_t) { return l; }); },
                    label_loss(loss, smoothing));
}

py::tuple implicit_margins(const Array<float>& scores, const Array<Offset>& indptr, const Array<Index>& ids,
                           double smoothing, double eta, const Array<double>& x_sq, const std::string& isa) {
  const LabelledRows rows = labelled_rows(scores, indptr, ids);
  if (static_cast<std::size_t>(x_sq.size()) != rows.size()) throw std::invalid_argument("each row needs an x_sq");
  const std::span<const double> squares = view(x_sq);
  return each_row(rows, isa_named(isa), [&](std::size_t i) { return implicit_margin(smoothing, eta, squares[i]); });
}

// The projection as it is, of no loss.
struct Projection {
  double operator()(const LabelScores& z, LabelGradient& alpha, LossMemory& memory) const {
    const BiSimplex found = project_bisimplex(z.positives, z.negatives, 0, 0, 0, 1, memory.floats, memory.more_floats);
    for (std::size_t k = 0; k < z.positives.size(); ++k) {
      alpha.positives[k] = static_cast<float>(found.positive(static_cast<double>(z.positives[k])));
    }
    for (std::size_t j = 0; j < z.negatives.size(); ++j) {
      alpha.negatives[j] = static_cast<float>(found.negative(static_cast<double>(z.negatives[j])));
    }
    return found.value;
  }
};

py::object projections(const Array<float>& scores, const Array<Offset>& indptr, const Array<Index>& ids,
                       const std::string& isa) {
  const LabelledRows rows = labelled_rows(scores, indptr, ids);
  return each_row(rows, isa_named(isa), [](std::size_t) { return Projection{}; })[1];
}

py::tuple one_point(const std::string& name, double smoothing, const Array<float>& positives,
                    const Array<float>& negatives, double rest, float rest_score, const std::string& isa) {
  Array<float> of_positives(positives.size()), of_negatives(negatives.size());
  const LabelScores z{view(positives), view(negatives), rest, rest_score};
  LabelGradient g{mutable_view(of_positives), mutable_view(of_negatives)};
  LossMemory memory;
  double value = 0;
  bool enough = false;
  std::visit(
      [&](const auto& loss) {
        run_with(isa_named(isa), [&] { value = loss(z, g, memory); });
        enough = loss.top_is_enough(g);
      },
      label_loss(name, smoothing));
  return py::make_tuple(value, of_positives, of_negatives, g.rest, enough);
}

}  // namespace

void bind_losses(py::module_& m) {
  m.def("losses", losses, "scores"_a.noconvert(), "indptr"_a.noconvert(), "ids"_a.noconvert(), py::kw_only(), "loss"_a,
        "smoothing"_a = 0.0, "isa"_a = "auto");
  m.def("implicit_margins", implicit_margins, "scores"_a.noconvert(), "indptr"_a.noconvert(), "ids"_a.noconvert(),
        py::kw_only(), "smoothing"_a, "eta"_a, "x_sq"_a.noconvert(), "isa"_a = "auto");
  m.def("bisimplex_projections", projections, "scores"_a.noconvert(), "indptr"_a.noconvert(), "ids"_a.noconvert(),
        py::kw_only(), "isa"_a = "auto");
  m.def("_label_loss", one_point, "loss"_a, "smoothing"_a, "positives"_a.noconvert(), "negatives"_a.noconvert(),
        py::kw_only(), "rest"_a, "rest_score"_a, "isa"_a = "auto");
}

}  // namespace manyclass
