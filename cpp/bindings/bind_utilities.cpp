// Choice probabilities of random utility models.
#include <pybind11/stl.h>

#include <cmath>

#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "bindings/weights.hpp"
#include "manyclass/exact/local_family.hpp"
#include "manyclass/utility/model.hpp"
#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

namespace {

using namespace py::literals;

UtilityRows rows_of(const Array<double>& psi) {
  if (psi.ndim() != 2 || psi.shape(1) < 1) throw std::invalid_argument("psi must be of shape (N, K), K at least 1");
  as_index(psi.shape(1), "K");
  for (const double v : view(psi)) {
    if (!std::isfinite(v)) throw std::invalid_argument("psi has a value that is not finite");
  }
  return {view(psi), static_cast<std::size_t>(psi.shape(1))};
}

void check_classes(std::span<const Index> classes, std::size_t n_classes) {
  for (const Index k : classes) {
    if (k < 0 || static_cast<std::size_t>(k) >= n_classes) {
      throw std::invalid_argument("class " + std::to_string(k) + " is outside [0, " + std::to_string(n_classes) + ")");
    }
  }
}

Array<double> probabilities(const std::string& noise, const Array<double>& psi, bool log, int n_threads,
                            const std::string& isa_name) {
  const NoiseKind kind = noise_named(noise);
  const Isa isa = isa_named(isa_name);
  const UtilityRows rows = rows_of(psi);
  Array<double> out({psi.shape(0), psi.shape(1)});
  const std::span<double> p = mutable_view(out);
  const py::gil_scoped_release nogil;
  utility_probabilities(kind, rows, log, n_threads, isa, p);
  return out;
}

Array<double> probabilities_at(const std::string& noise, const Array<double>& psi, const Array<Index>& classes,
                               bool log, int n_threads, const std::string& isa_name) {
  const NoiseKind kind = noise_named(noise);
  const Isa isa = isa_named(isa_name);
  const UtilityRows rows = rows_of(psi);
  if (classes.ndim() != 2 || classes.shape(0) != psi.shape(0)) {
    throw std::invalid_argument("classes must be of shape (N, m), a row for each of psi");
  }
  check_classes(view(classes), rows.n_classes);
  Array<double> out({classes.shape(0), classes.shape(1)});
  const std::span<const Index> k = view(classes);
  const std::span<double> p = mutable_view(out);
  const auto width = static_cast<std::size_t>(classes.shape(1));
  const py::gil_scoped_release nogil;
  utility_probabilities_at(kind, rows, k, width, log, n_threads, isa, p);
  return out;
}

Array<double> sampled_log_probabilities(const std::string& noise, const Array<double>& psi, const Array<Index>& labels,
                                        int n_samples, std::uint64_t seed, int n_threads, const std::string& isa_name) {
  const NoiseKind kind = noise_named(noise);
  const Isa isa = isa_named(isa_name);
  const UtilityRows rows = rows_of(psi);
  if (labels.size() != psi.shape(0)) throw std::invalid_argument("psi and labels differ in length");
  if (n_samples < 1) throw std::invalid_argument("n_samples is " + std::to_string(n_samples) + "; it must be positive");
  check_classes(view(labels), rows.n_classes);
  Array<double> out(labels.size());
  const std::span<const Index> y = view(labels);
  const std::span<double> log_p = mutable_view(out);
  const py::gil_scoped_release nogil;
  sampled_utility_log_probabilities(kind, rows, y, n_samples, seed, n_threads, isa, log_p);
  return out;
}

py::tuple log_losses(const std::string& noise, const py::object& x, py::ssize_t n_features, const Weights& w,
                     const Array<Index>& labels, int n_threads, const std::string& isa_name) {
  const NoiseKind kind = noise_named(noise);
  const Isa isa = isa_named(isa_name);
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    if (labels.size() != data.n_rows()) throw std::invalid_argument("X and y differ in length");
    const std::span<const Index> y = view(labels);
    check_classes(y, static_cast<std::size_t>(model.n_classes));
    Array<double> losses(labels.size());
    Array<Index> ranks(labels.size());
    const std::span<double> out = mutable_view(losses);
    const std::span<Index> out_ranks = mutable_view(ranks);
    {
      const py::gil_scoped_release nogil;
      utility_log_losses(kind, data, y, model, n_threads, isa, out, out_ranks);
    }
    return py::make_tuple(losses, ranks);
  });
}

py::tuple most_probable(const std::string& noise, const py::object& x, py::ssize_t n_features, const Weights& w,
                        py::ssize_t k, int n_threads, const std::string& isa_name) {
  const NoiseKind kind = noise_named(noise);
  const Isa isa = isa_named(isa_name);
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    if (k < 1 || k > model.n_classes) throw std::invalid_argument("k is out of range");
    const py::ssize_t n = data.n_rows();
    Array<Index> classes({n, k});
    Array<float> log_probabilities({n, k});
    const std::span<Index> out = mutable_view(classes);
    const std::span<float> out_log = mutable_view(log_probabilities);
    {
      const py::gil_scoped_release nogil;
      utility_top_k(kind, data, model, static_cast<Index>(k), n_threads, isa, out, out_log);
    }
    return py::make_tuple(classes, log_probabilities);
  });
}

Array<double> probabilities_of_model(const std::string& noise, const py::object& x, py::ssize_t n_features,
                                     const Weights& w, bool log, int n_threads, const std::string& isa_name) {
  const NoiseKind kind = noise_named(noise);
  const Isa isa = isa_named(isa_name);
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    Array<double> out({static_cast<py::ssize_t>(data.n_rows()), w.n_classes});
    const std::span<double> p = mutable_view(out);
    const py::gil_scoped_release nogil;
    utility_all(kind, data, model, log, n_threads, isa, p);
    return out;
  });
}

py::tuple best_local(const std::string& noise, const Array<double>& d, const Array<double>& counts,
                     const Array<double>& nodes, const Array<double>& weights, double mu, double s, int n_threads) {
  if (d.ndim() != 2) throw std::invalid_argument("d must be a matrix");
  const Margins margins{view(d), view(counts), static_cast<std::size_t>(d.shape(1))};
  const Rule rule{view(nodes), view(weights)};
  Array<double> locations(d.shape(0)), scales(d.shape(0));
  const std::span<double> of_mu = mutable_view(locations), of_s = mutable_view(scales);
  {
    const py::gil_scoped_release nogil;
    best_members(noise, margins, rule, {mu, s}, n_threads, best_isa(), of_mu, of_s);
  }
  return py::make_tuple(locations, scales);
}

Array<double> local_bounds(const std::string& noise, const Array<float>& scores, const Array<Index>& labels,
                           const Array<double>& nodes, const Array<double>& weights, const Array<double>& fine_nodes,
                           const Array<double>& fine_weights, double mu, double s, int n_threads) {
  const Rule rule{view(nodes), view(weights)}, fine{view(fine_nodes), view(fine_weights)};
  Array<double> bounds(labels.size());
  const std::span<double> out = mutable_view(bounds);
  const py::gil_scoped_release nogil;
  best_bounds(noise, view(scores), view(labels), rule, fine, {mu, s}, n_threads, best_isa(), out);
  return bounds;
}

}  // namespace

void bind_utilities(py::module_& m) {
  m.def("best_local", best_local, py::kw_only(), "noise"_a, "d"_a.noconvert(), "counts"_a.noconvert(),
        "nodes"_a.noconvert(), "weights"_a.noconvert(), "mu"_a, "s"_a, "n_threads"_a);
  m.def("best_local_bounds", local_bounds, py::kw_only(), "noise"_a, "scores"_a.noconvert(), "labels"_a.noconvert(),
        "nodes"_a.noconvert(), "weights"_a.noconvert(), "fine_nodes"_a.noconvert(), "fine_weights"_a.noconvert(),
        "mu"_a, "s"_a, "n_threads"_a);
  m.def("utility_probabilities", probabilities, py::kw_only(), "noise"_a, "psi"_a.noconvert(), "log"_a, "n_threads"_a,
        "isa"_a = "auto");
  m.def("utility_probabilities_at", probabilities_at, py::kw_only(), "noise"_a, "psi"_a.noconvert(),
        "classes"_a.noconvert(), "log"_a, "n_threads"_a, "isa"_a = "auto");
  m.def("sampled_utility_log_probabilities", sampled_log_probabilities, py::kw_only(), "noise"_a, "psi"_a.noconvert(),
        "labels"_a.noconvert(), "n_samples"_a, "seed"_a, "n_threads"_a, "isa"_a = "auto");
  m.def("utility_log_losses", log_losses, "noise"_a, "x"_a, "n_features"_a, "weights"_a, "labels"_a.noconvert(),
        "n_threads"_a, "isa"_a = "auto");
  m.def("utility_top_k", most_probable, "noise"_a, "x"_a, "n_features"_a, "weights"_a, "k"_a, "n_threads"_a,
        "isa"_a = "auto");
  m.def("utility_predict_proba", probabilities_of_model, "noise"_a, "x"_a, "n_features"_a, "weights"_a, "log"_a,
        "n_threads"_a, "isa"_a = "auto");
}

}  // namespace manyclass
