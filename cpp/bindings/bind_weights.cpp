// Weights of any kind and storage, and the questions put to them.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "bindings/bound_weights.hpp"
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/mean_curvatures.hpp"
#include "manyclass/evaluate/tiles.hpp"
#include "manyclass/evaluate/weights.hpp"
#include "manyclass/utility/calibration.hpp"
#include "manyclass/utility/model.hpp"

namespace manyclass {

namespace {

using Values = std::variant<std::span<const float>, std::span<const std::uint16_t>, std::span<const std::int8_t>>;
using Scale = std::span<const float>;

AnyCodes codes_of(const Values& values, Scale scales) {
  return std::visit(
      [&](const auto& some) {
        using Value = std::remove_const_t<typename std::remove_cvref_t<decltype(some)>::element_type>;
        return AnyCodes(Codes<Value>{some, scales});
      },
      values);
}

struct WeightsCall {
  Values rows, values, embeddings;
  Scale row_scales, value_scales, embedding_scales, centre, intercept;
  bool by_feature = false, coded = false;
  std::span<const Offset> indptr;
  AnyIds classes;
  py::ssize_t n_features = 0;
  CountMixture mixture;
  Phi::Shape phi;
  std::span<const Index> features;
  std::size_t block_numbers = std::size_t{1} << 22;  // of phi in hand at once
};

Fields<WeightsCall> weights_fields() {
  using Of = WeightsCall;
  Fields<Of> fields("Weights");
  fields.needs<&Of::rows, &Of::row_scales, &Of::by_feature, &Of::indptr, &Of::classes, &Of::values, &Of::value_scales,
               &Of::intercept, &Of::n_features, &Of::coded, &Of::mixture>();
  fields.takes<&Of::embeddings, &Of::embedding_scales, &Of::centre, &Of::features, &Of::block_numbers>();
  Fields<Phi::Shape> shape("PhiShape");
  shape.takes<&Phi::Shape::n_hidden, &Phi::Shape::relu>().member_as<&Phi::Shape::intercept>("intercept_column", false);
  return fields.with<&Of::phi>(shape);
}

BoundWeights weights_of(const WeightsCall& call) {
  const Index n_features = as_index(call.n_features, "the number of features");
  const AnyCodes rows = codes_of(call.rows, call.row_scales);
  BoundWeights weights{{rows, call.by_feature, call.indptr, call.classes, codes_of(call.values, call.value_scales),
                        call.intercept, n_features, call.coded, call.mixture},
                       n_features,
                       std::nullopt,
                       call.block_numbers};
  if (!weights.reads_phi()) return weights;
  Phi::Shape shape = call.phi;
  shape.width = std::visit([](const auto& some) { return some.size(); }, call.rows) / call.intercept.size();
  if (shape.n_hidden == 0) shape.n_hidden = shape.width;
  weights.phi.emplace(shape, n_features, codes_of(call.embeddings, call.embedding_scales), call.coded, call.features,
                      call.centre);
  return weights;
}

AnyData data_for(const BoundWeights& w, const py::object& x) {
  const AnyData data = data_view(x, w.n_features);
  if (w.reads_x() && !std::holds_alternative<CsrView>(data)) {
    throw py::type_error("the data must be a tuple (indptr, indices, data)");
  }
  return data;
}

AnyData rows_of(const AnyData& x, std::size_t first, std::size_t n) {
  return std::visit([&](const auto& data) { return AnyData(data.rows_from(first, n)); }, x);
}

// Calls f(points, first, n) with all points, or with some of them at a time where phi is to be made.
template <class F>
void ask_all(const BoundWeights& w, const AnyData& x, const Asked& asked, const F& f) {
  const auto n = static_cast<std::size_t>(n_rows(x));
  const auto* csr = std::get_if<CsrView>(&x);
  if (!w.phi) return f(AnyPoints(std::get<CsrView>(x)), std::size_t{0}, n);
  if (n_cols(x) != w.n_features) throw std::invalid_argument("the weights do not fit the data");
  if (csr == nullptr && w.phi->is_identity()) return f(AnyPoints(std::get<DenseView>(x)), std::size_t{0}, n);
  const std::size_t width = w.phi->width(), step = std::max(w.block_numbers / width, std::size_t{1});
  std::vector<float> room(std::min(step, n) * width);
  for (std::size_t first = 0; first < n; first += step) {
    const std::size_t size = std::min(step, n - first);
    const std::span<float> phi = std::span(room).first(size * width);
    const AnyData piece = rows_of(x, first, size);
    w.phi->write(piece, asked.n_threads, asked.isa, phi);
    const DenseView features{phi, static_cast<Index>(size), static_cast<Index>(width)};
    if (w.reads_x()) {
      f(AnyPoints(PairedView{std::get<CsrView>(piece), features, w.n_features}), first, size);
    } else {
      f(AnyPoints(features), first, size);
    }
  }
}

template <class F>
void ask(const BoundWeights& w, const AnyData& x, const Asked& asked, const F& f) {
  released([&] { ask_all(w, x, asked, f); });
}

void check_labels(std::span<const Index> labels, const AnyData& x) {
  if (labels.size() != static_cast<std::size_t>(n_rows(x))) throw std::invalid_argument("X and y differ in length");
}

auto losses_and_ranks(const BoundWeights& w, const py::object& x, std::span<const Index> labels, Scale scale,
                      int n_threads, Isa isa) {
  const AnyData data = data_for(w, x);
  const Asked asked{scale, n_threads, isa};
  check_labels(labels, data);
  auto losses = empty_array<double>(labels.size());
  auto ranks = empty_array<Index>(labels.size());
  const std::span<double> out = mutable_view(losses);
  const std::span<Index> out_ranks = mutable_view(ranks);
  ask(w, data, asked, [&](const AnyPoints& points, std::size_t first, std::size_t n) {
    w.log_losses(points, labels.subspan(first, n), asked, out.subspan(first, n), out_ranks.subspan(first, n));
  });
  return std::pair(losses, ranks);
}

auto row_normalizers(const BoundWeights& w, const py::object& x, Scale scale, int n_threads, Isa isa) {
  const AnyData data = data_for(w, x);
  const Asked asked{scale, n_threads, isa};
  Array<double> log_z(n_rows(data));
  const std::span<double> out = mutable_view(log_z);
  ask(w, data, asked, [&](const AnyPoints& points, std::size_t first, std::size_t n) {
    w.log_normalizers(points, asked, out.subspan(first, n));
  });
  return log_z;
}

auto best(const BoundWeights& w, const py::object& x, Index k, Scale scale, int n_threads, Isa isa) {
  const AnyData data = data_for(w, x);
  const Asked asked{scale, n_threads, isa};
  Array<Index> classes({n_rows(data), k});
  Array<float> log_p({n_rows(data), k});
  const std::span<Index> out = mutable_view(classes);
  const std::span<float> out_log_p = mutable_view(log_p);
  const auto width = static_cast<std::size_t>(k);
  ask(w, data, asked, [&](const AnyPoints& points, std::size_t first, std::size_t n) {
    w.top_k(points, k, asked, out.subspan(first * width, n * width), out_log_p.subspan(first * width, n * width));
  });
  return std::pair(classes, log_p);
}

void best_wrong(const BoundWeights& w, const py::object& x, std::span<const Index> labels, const Matrix<Index>& classes,
                Scale scale, int n_threads, Isa isa) {
  const AnyData data = data_for(w, x);
  const Asked asked{scale, n_threads, isa};
  check_labels(labels, data);
  const std::size_t width = classes.width();
  if (classes.data.size() != labels.size() * width)
    throw std::invalid_argument("classes must have a row for each point");
  ask(w, data, asked, [&](const AnyPoints& points, std::size_t first, std::size_t n) {
    w.top_wrong(points, labels.subspan(first, n), asked, classes.data.subspan(first * width, n * width));
  });
}

auto scores(const BoundWeights& w, const py::object& x, Scale scale, int n_threads, Isa isa) {
  const AnyData data = data_for(w, x);
  const Asked asked{scale, n_threads, isa};
  Array<float> scores_of_rows({n_rows(data), w.n_classes()});
  const std::span<float> out = mutable_view(scores_of_rows);
  const auto width = static_cast<std::size_t>(w.n_classes());
  ask(w, data, asked, [&](const AnyPoints& points, std::size_t first, std::size_t n) {
    w.scores(points, asked, out.subspan(first * width, n * width));
  });
  return scores_of_rows;
}

// What writes the scores of rows of `data` from one of them on; it and the weights must outlive that.
auto scores_from(const BoundWeights& w, const AnyData& data, const Asked& asked) {
  return [&w, &data, asked, width = static_cast<std::size_t>(w.n_classes())](std::size_t first, std::span<float> out) {
    ask_all(w, rows_of(data, first, out.size() / width), asked,
            [&](const AnyPoints& points, std::size_t begin, std::size_t n) {
              w.scores(points, asked, out.subspan(begin * width, n * width));
            });
  };
}

Array<double> curvatures(const BoundWeights& w, const py::object& x, Scale scale, int n_threads) {
  const AnyData data = data_for(w, x);
  const auto score = scores_from(w, data, {scale, n_threads, best_isa()});
  const auto n = static_cast<std::size_t>(n_rows(data)), n_classes = static_cast<std::size_t>(w.n_classes());
  return array_of(released([&] { return mean_curvatures(n, n_classes, score); }));
}

// Rows with labels, whose scores the weights give; `data` and the arrays must outlive them.
HeldOutRows held_out(const BoundWeights& w, const AnyData& data, const Excluded& labels,
                     std::span<const double> weights, const Asked& asked) {
  HeldOutRows rows{static_cast<std::size_t>(w.n_classes()),
                   scores_from(w, data, asked),
                   labels,
                   weights,
                   asked.n_threads,
                   asked.isa};
  if (rows.size() != static_cast<std::size_t>(n_rows(data))) throw std::invalid_argument("X and y differ in length");
  return rows;
}

// No noise: of several labels.
auto calibration(const BoundWeights& w, const py::object& x, std::span<const Offset> indptr,
                 std::span<const Index> labels, std::span<const double> sample_weight,
                 const std::optional<std::string>& noise, Scale scale, int n_threads) {
  const AnyData data = data_for(w, x);
  const HeldOutRows rows = held_out(w, data, {indptr, labels}, sample_weight, {scale, n_threads, best_isa()});
  const FoundCalibration calibrated =
      released([&] { return noise ? best_temperature(rows, noise_named(*noise)) : best_odds(rows); });
  return std::tuple(calibrated.temperature, calibrated.offset, calibrated.before, calibrated.after);
}

auto losses_of_labels(const BoundWeights& w, const py::object& x, std::span<const Offset> indptr,
                      std::span<const Index> labels, double temperature, double offset, Scale scale, int n_threads) {
  const AnyData data = data_for(w, x);
  const HeldOutRows rows = held_out(w, data, {indptr, labels}, {}, {scale, n_threads, best_isa()});
  auto of_classes = empty_array<double>(rows.size()), of_own = empty_array<double>(rows.size());
  const std::span<double> out = mutable_view(of_classes), own = mutable_view(of_own);
  released([&] { label_log_losses(rows, temperature, offset, out, own); });
  return std::pair(of_classes, of_own);
}

auto log_probabilities(const BoundWeights& w, const py::object& x, const std::string& noise,
                       const Matrix<const Index>& classes, Scale scale, int n_threads, Isa isa) {
  const AnyData data = data_for(w, x);
  const Asked asked{scale, n_threads, isa};
  const bool all = classes.cols == 0;
  if (!all && classes.rows != n_rows(data)) {
    throw std::invalid_argument("classes must be of shape (N, m), a row for each point");
  }
  const NoiseKind kind = noise_named(noise);
  Array<double> log_p({n_rows(data), all ? w.n_classes() : classes.cols});
  const std::span<double> out = mutable_view(log_p);
  const auto width = static_cast<std::size_t>(all ? w.n_classes() : classes.cols);
  ask(w, data, asked, [&](const AnyPoints& points, std::size_t first, std::size_t n) {
    const auto of_rows = all ? std::span<const Index>() : classes.data.subspan(first * width, n * width);
    utility_log_probabilities(kind, w, points, of_rows, width, asked, out.subspan(first * width, n * width));
  });
  return log_p;
}

// See Phi::feature_weights.
Array<double> weights_of_features(const BoundWeights& w, Index k, std::span<const Index> features,
                                  std::span<const double> values) {
  if (!values.empty() && values.size() != features.size())
    throw std::invalid_argument("values do not fit the features");
  std::vector<double> sums(features.size());
  if (w.phi) sums = w.phi->feature_weights(w, k, features, values);
  for (std::size_t c = 0; c < features.size() && w.reads_x(); ++c) sums[c] += w.feature_weight(features[c], k);
  return array_of(sums);
}

Array<float> phi_of(const BoundWeights& w, const py::object& x, int n_threads, Isa isa) {
  const AnyData data = data_view(x, w.n_features);
  if (!w.phi) throw std::invalid_argument("the weights have no rows of classes");
  Array<float> phi({n_rows(data), static_cast<Index>(w.phi->width())});
  const std::span<float> out = mutable_view(phi);
  released([&] { w.phi->write(data, n_threads, isa, out); });
  return phi;
}

}  // namespace

void bind_weights(Module& m) {
  Fields<CountMixture> fields("CountMixture");
  fields.takes<&CountMixture::counts, &CountMixture::totals, &CountMixture::own, &CountMixture::share,
               &CountMixture::shrinkage, &CountMixture::counts_own, &CountMixture::repeats, &CountMixture::power,
               &CountMixture::rate, &CountMixture::kept>();
  // Weights check it, when they are made of it.
  bind_struct(m, fields, [](const CountMixture&) {});
  const auto x = "x"_a, labels = "labels"_a, scale = "scale"_a, n_threads = "n_threads"_a;
  const auto isa = "isa"_a = "auto";
  const Fields<WeightsCall> arrays = weights_fields();
  list_fields(m, arrays);
  Class<BoundWeights>(m, "Weights")
      .def(constructor([arrays](const py::kwargs& given) { return weights_of(arrays.of(given)); }), KeepAll())
      .def("log_losses", &losses_and_ranks, x, labels, scale, n_threads, isa)
      .def("log_normalizers", &row_normalizers, x, scale, n_threads, isa)
      .def("top_k", &best, x, "k"_a, scale, n_threads, isa)
      .def("top_wrong", &best_wrong, x, labels, "classes"_a, scale, n_threads, isa)
      .def("scores", &scores, x, scale, n_threads, isa)
      .def("log_probabilities", &log_probabilities, x, "noise"_a, "classes"_a, scale, n_threads, isa)
      .def("feature_weights", &weights_of_features, "k"_a, "features"_a, "values"_a)
      .def("phi", &phi_of, x, n_threads, isa)
      .def("mean_curvatures", &curvatures, x, scale, n_threads)
      .def("calibration", &calibration, x, "indptr"_a, labels, "sample_weight"_a, "noise"_a, scale, n_threads)
      .def("label_log_losses", &losses_of_labels, x, "indptr"_a, labels, "temperature"_a, "offset"_a, scale, n_threads);
  m.attr("most_temperature") = most_temperature;
  m.attr("most_offset") = most_offset;
  m.def(
      "n_held", [] { return n_held(); },
      "Questions of this thread so far with a score that was not finite, for which another one was taken.");
}

}  // namespace manyclass
