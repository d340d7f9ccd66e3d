// Choice probabilities of random utility models, and the best members of augment and reduce's local family.
#include "bindings/arrays.hpp"
#include "bindings/family_of_points.hpp"
#include "bindings/module.hpp"
#include "manyclass/exact/local_family.hpp"
#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

namespace {

UtilityRows rows_of(const Matrix<const double>& psi) {
  const UtilityRows rows{psi.data, psi.width()};
  check(rows);
  return rows;
}

Array<double> probabilities(const std::string& noise, const Matrix<const double>& psi, bool log, int n_threads,
                            Isa isa) {
  const UtilityRows rows = rows_of(psi);
  Array<double> out({psi.rows, psi.cols});
  released([&] { utility_probabilities(noise_named(noise), rows, log, n_threads, isa, mutable_view(out)); });
  return out;
}

Array<double> probabilities_at(const std::string& noise, const Matrix<const double>& psi,
                               const Matrix<const Index>& classes, bool log, int n_threads, Isa isa) {
  const UtilityRows rows = rows_of(psi);
  if (classes.rows != psi.rows) throw std::invalid_argument("classes must be of shape (N, m), a row for each of psi");
  check_classes(classes.data, rows.n_classes);
  Array<double> out({classes.rows, classes.cols});
  released([&] {
    utility_probabilities_at(noise_named(noise), rows, classes.data, classes.width(), log, n_threads, isa,
                             mutable_view(out));
  });
  return out;
}

Array<double> sampled_log_probabilities(const std::string& noise, const Matrix<const double>& psi,
                                        std::span<const Index> labels, int n_samples, std::uint64_t seed, int n_threads,
                                        Isa isa) {
  const UtilityRows rows = rows_of(psi);
  if (labels.size() != rows.size()) throw std::invalid_argument("psi and labels differ in length");
  if (n_samples < 1) throw std::invalid_argument("n_samples is " + std::to_string(n_samples) + "; it must be positive");
  check_classes(labels, rows.n_classes);
  auto out = empty_array<double>(labels.size());
  released([&] {
    sampled_utility_log_probabilities(noise_named(noise), rows, labels, n_samples, seed, n_threads, isa,
                                      mutable_view(out));
  });
  return out;
}

using Family = FamilyOfPoints;

Family family_of(const std::string& noise, const std::string& name, Index n_nodes, Index n_classes) {
  const FamilyForNoise family = family_for_noise(noise, name, n_nodes, n_classes);
  return family_of_points(name, family.rule.nodes, family.rule.weights, family.entropy, family.largest_scale,
                          family.start);
}

Array<double> local_bounds(const Family& q, const std::string& noise, std::span<const float> scores,
                           std::span<const Index> labels, int n_threads) {
  auto bounds = empty_array<double>(labels.size());
  const std::span<double> out = mutable_view(bounds);
  const Rule rule{q.of.nodes, q.of.weights};
  released([&] { best_bounds(noise, q.name, scores, labels, rule, q.start, n_threads, best_isa(), out); });
  return bounds;
}

py::tuple fields_of(const Family& q) {
  return py::make_tuple(q.name, array_of(q.of.nodes), array_of(q.of.weights), q.of.entropy, q.of.largest_scale,
                        q.start.mu, q.start.s);
}

void bind_local_family(Module& m) {
  Class<Family>(m, "LocalFamily")
      .def(constructor(&family_of), py::kw_only(), "noise"_a, "name"_a, "n_nodes"_a, "n_classes"_a)
      .def("best_bounds", local_bounds, "noise"_a, "scores"_a, "labels"_a, "n_threads"_a)
      .def_readonly("name", &Family::name)
      .def_property_readonly("nodes", [](const Family& q) { return array_of(q.of.nodes); })
      .def_property_readonly("weights", [](const Family& q) { return array_of(q.of.weights); })
      .def_property_readonly("entropy", [](const Family& q) { return q.of.entropy; })
      .def_property_readonly("largest_scale", [](const Family& q) { return q.of.largest_scale; })
      .def_property_readonly("mu", [](const Family& q) { return q.start.mu; })
      .def_property_readonly("s", [](const Family& q) { return q.start.s; })
      .def("__repr__",
           [](const Family& q) {
             const py::str form(
                 "LocalFamily(name={!r}, nodes={!r}, weights={!r}, entropy={!r}, largest_scale={!r}, mu={!r}, s={!r})");
             return form.attr("format")(*fields_of(q));
           })
      .by_pybind11()
      .def(py::pickle([](const Family& q) { return fields_of(q); },
                      [](const py::tuple& f) {
                        const auto nodes = f[1].cast<std::vector<double>>(), weights = f[2].cast<std::vector<double>>();
                        return family_of_points(f[0].cast<std::string>(), nodes, weights, f[3].cast<double>(),
                                                f[4].cast<double>(), {f[5].cast<double>(), f[6].cast<double>()});
                      }));
}

}  // namespace

void bind_utilities(Module& m) {
  const auto isa = "isa"_a = "auto";
  const auto noise = "noise"_a, psi = "psi"_a, labels = "labels"_a, log = "log"_a, n_threads = "n_threads"_a;
  m.def("utility_probabilities", probabilities, py::kw_only(), noise, psi, log, n_threads, isa);
  m.def("utility_probabilities_at", probabilities_at, py::kw_only(), noise, psi, "classes"_a, log, n_threads, isa);
  m.def("sampled_utility_log_probabilities", sampled_log_probabilities, py::kw_only(), noise, psi, labels,
        "n_samples"_a, "seed"_a, n_threads, isa);
  bind_local_family(m);
}

}  // namespace manyclass
