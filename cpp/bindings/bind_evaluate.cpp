// Exact evaluation: log-losses and ranks, top-k, scores.
#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "bindings/weights.hpp"
#include "manyclass/evaluate/log_loss.hpp"
#include "manyclass/evaluate/top_k.hpp"

namespace manyclass {

using namespace py::literals;

void bind_evaluate(py::module_& m) {
  py::class_<Weights>(m, "Weights")
      .def(py::init([](Array<float> matrix, Array<float> intercept, Array<float> scale, py::ssize_t n_classes) {
             return Weights{matrix, intercept, scale, n_classes};
           }),
           py::kw_only(), "matrix"_a.noconvert(), "intercept"_a.noconvert(), "scale"_a.noconvert(), "n_classes"_a);

  m.def(
      "log_losses",
      [](const py::object& x, py::ssize_t n_features, const Weights& w, const Array<Index>& labels, int n_threads,
         const std::string& isa) {
        return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
          const std::span<const Index> y = view(labels);
          if (labels.size() != data.n_rows()) throw std::invalid_argument("X and y differ in length");
          for (const Index label : y) {
            if (label < 0 || label >= model.n_classes) throw std::invalid_argument("a label is out of range");
          }
          Array<double> losses(labels.size());
          Array<Index> ranks(labels.size());
          const std::span<double> out = mutable_view(losses);
          const std::span<Index> out_ranks = mutable_view(ranks);
          {
            const py::gil_scoped_release nogil;
            log_losses(data, y, model, n_threads, isa_named(isa), out, out_ranks);
          }
          return py::make_tuple(losses, ranks);
        });
      },
      "x"_a, "n_features"_a, "weights"_a, "labels"_a.noconvert(), "n_threads"_a, "isa"_a = "auto");

  m.def(
      "log_normalizers",
      [](const py::object& x, py::ssize_t n_features, const Weights& w, int n_threads, const std::string& isa) {
        return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
          Array<double> normalizers(data.n_rows());
          const std::span<double> out = mutable_view(normalizers);
          {
            const py::gil_scoped_release nogil;
            log_normalizers(data, model, n_threads, isa_named(isa), out);
          }
          return normalizers;
        });
      },
      "x"_a, "n_features"_a, "weights"_a, "n_threads"_a, "isa"_a = "auto");

  m.def(
      "top_k",
      [](const py::object& x, py::ssize_t n_features, const Weights& w, py::ssize_t k, int n_threads,
         const std::string& isa) {
        return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
          if (k < 1 || k > model.n_classes) throw std::invalid_argument("k is out of range");
          const py::ssize_t n = data.n_rows();
          Array<Index> classes({n, k});
          Array<float> log_probabilities({n, k});
          const std::span<Index> out = mutable_view(classes);
          const std::span<float> out_log = mutable_view(log_probabilities);
          {
            const py::gil_scoped_release nogil;
            top_k(data, model, static_cast<Index>(k), n_threads, isa_named(isa), out, out_log);
          }
          return py::make_tuple(classes, log_probabilities);
        });
      },
      "x"_a, "n_features"_a, "weights"_a, "k"_a, "n_threads"_a, "isa"_a = "auto");

  m.def(
      "top_wrong",
      [](const py::object& x, py::ssize_t n_features, const Weights& w, const Array<Index>& labels,
         Array<Index> classes, int n_threads) {
        with_data(x, n_features, w, [&](const auto& data, const auto& model) {
          const std::span<Index> out = mutable_view(classes);
          const py::gil_scoped_release nogil;
          top_wrong(data, view(labels), model, n_threads, best_isa(), out);
        });
      },
      "x"_a, "n_features"_a, "weights"_a, "labels"_a.noconvert(), "classes"_a.noconvert(), "n_threads"_a);

  m.def(
      "scores",
      [](const py::object& x, py::ssize_t n_features, const Weights& w, int n_threads, const std::string& isa) {
        return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
          Array<float> scores({static_cast<py::ssize_t>(data.n_rows()), w.n_classes});
          const std::span<float> out = mutable_view(scores);
          {
            const py::gil_scoped_release nogil;
            all_scores(data, model, n_threads, isa_named(isa), out);
          }
          return scores;
        });
      },
      "x"_a, "n_features"_a, "weights"_a, "n_threads"_a, "isa"_a = "auto");
}

}  // namespace manyclass
