// Exact evaluation: log-losses and ranks, top-k, scores.
#include "bindings/module.hpp"
#include "bindings/weights.hpp"
#include "manyclass/evaluate/log_loss.hpp"
#include "manyclass/evaluate/top_k.hpp"

namespace manyclass {

namespace {

auto losses_and_ranks(const py::object& x, py::ssize_t n_features, const Weights& w, std::span<const Index> labels,
                      int n_threads, Isa isa) {
  auto losses = empty_array<double>(labels.size());
  auto ranks = empty_array<Index>(labels.size());
  with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    released([&] { log_losses(data, labels, model, n_threads, isa, mutable_view(losses), mutable_view(ranks)); });
  });
  return std::pair(losses, ranks);
}

Array<double> normalizers(const py::object& x, py::ssize_t n_features, const Weights& w, int n_threads, Isa isa) {
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    Array<double> out(data.n_rows());
    released([&] { log_normalizers(data, model, n_threads, isa, mutable_view(out)); });
    return out;
  });
}

auto best(const py::object& x, py::ssize_t n_features, const Weights& w, Index k, int n_threads, Isa isa) {
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    Array<Index> classes({data.n_rows(), k});
    Array<float> log_p({data.n_rows(), k});
    released([&] { top_k(data, model, k, n_threads, isa, mutable_view(classes), mutable_view(log_p)); });
    return std::pair(classes, log_p);
  });
}

void best_wrong(const py::object& x, py::ssize_t n_features, const Weights& w, std::span<const Index> labels,
                std::span<Index> classes, int n_threads) {
  with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    released([&] { top_wrong(data, labels, model, n_threads, best_isa(), classes); });
  });
}

Array<float> scores(const py::object& x, py::ssize_t n_features, const Weights& w, int n_threads, Isa isa) {
  return with_data(x, n_features, w, [&](const auto& data, const auto& model) {
    Array<float> out({data.n_rows(), w.n_classes});
    released([&] { all_scores(data, model, n_threads, isa, mutable_view(out)); });
    return out;
  });
}

}  // namespace

void bind_evaluate(py::module_& m) {
  py::class_<Weights>(m, "Weights")
      .def(py::init<Matrix<const float>, std::span<const float>, std::span<const float>, Index>(), py::kw_only(),
           "matrix"_a, "intercept"_a, "scale"_a, "n_classes"_a, KeepAll());
  m.def("log_losses", losses_and_ranks, "x"_a, "n_features"_a, "weights"_a, "labels"_a, "n_threads"_a,
        "isa"_a = "auto");
  m.def("log_normalizers", normalizers, "x"_a, "n_features"_a, "weights"_a, "n_threads"_a, "isa"_a = "auto");
  m.def("top_k", best, "x"_a, "n_features"_a, "weights"_a, "k"_a, "n_threads"_a, "isa"_a = "auto");
  m.def("top_wrong", best_wrong, "x"_a, "n_features"_a, "weights"_a, "labels"_a, "classes"_a, "n_threads"_a);
  m.def(
      "n_held", [] { return n_held(); },
      "Questions of this thread so far with a score that was not finite, for which another one was taken.");
  m.def("scores", scores, "x"_a, "n_features"_a, "weights"_a, "n_threads"_a, "isa"_a = "auto");
}

}  // namespace manyclass
