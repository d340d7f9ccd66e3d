// Weights of any kind and storage, the questions put to them, and the scales of features.
#include <cstdint>
#include <variant>

#include "bindings/arrays.hpp"
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/best_but.hpp"
#include "manyclass/evaluate/label_mixtures.hpp"
#include "manyclass/evaluate/tiles.hpp"
#include "manyclass/evaluate/weights.hpp"
#include "manyclass/utility/model.hpp"
#include "manyclass/weights/encode.hpp"
#include "manyclass/weights/feature_scaling.hpp"
#include "manyclass/weights/label_scores.hpp"

namespace manyclass {

namespace {

using Values = std::variant<std::span<const float>, std::span<const std::uint16_t>, std::span<const std::int8_t>>;
using Phi = Matrix<const float>;
using Scale = std::span<const float>;

AnyCodes codes_of(const Values& values, Scale scales) {
  return std::visit(
      [&](const auto& some) {
        using Value = std::remove_const_t<typename std::remove_cvref_t<decltype(some)>::element_type>;
        return AnyCodes(Codes<Value>{some, scales});
      },
      values);
}

// The weights, and how many columns x has.
struct BoundWeights : Weights {
  Index n_features;

  BoundWeights(const Values& rows, Scale row_scales, bool by_feature, std::span<const Offset> indptr,
               const AnyIds& classes, const Values& values, Scale value_scales, std::span<const float> intercept,
               py::ssize_t n_columns, bool coded, const CountMixture& mixture)
      : Weights(codes_of(rows, row_scales), by_feature, indptr, classes, codes_of(values, value_scales), intercept,
                as_index(n_columns, "the number of features"), coded, mixture),
        n_features(static_cast<Index>(n_columns)) {}

  AnyPoints points(const py::object& x, const Phi& phi) const {
    if (!reads_x()) return dense_view(phi);
    const AnyData data = data_view(x, n_features);
    const auto* csr = std::get_if<CsrView>(&data);
    if (csr == nullptr) throw py::type_error("the data must be a tuple (indptr, indices, data)");
    if (reads_phi()) return PairedView{*csr, dense_view(phi), csr->n_cols};
    return *csr;
  }
};

auto losses_and_ranks(const BoundWeights& w, const py::object& x, const Phi& phi, std::span<const Index> labels,
                      Scale scale, int n_threads, Isa isa) {
  auto losses = empty_array<double>(labels.size());
  auto ranks = empty_array<Index>(labels.size());
  const AnyPoints points = w.points(x, phi);
  released([&] { w.log_losses(points, labels, {scale, n_threads, isa}, mutable_view(losses), mutable_view(ranks)); });
  return std::pair(losses, ranks);
}

auto normalizers(const BoundWeights& w, const py::object& x, const Phi& phi, Scale scale, int n_threads, Isa isa) {
  const AnyPoints points = w.points(x, phi);
  Array<double> out(n_rows(points));
  released([&] { w.log_normalizers(points, {scale, n_threads, isa}, mutable_view(out)); });
  return out;
}

auto best(const BoundWeights& w, const py::object& x, const Phi& phi, Index k, Scale scale, int n_threads, Isa isa) {
  const AnyPoints points = w.points(x, phi);
  Array<Index> classes({n_rows(points), k});
  Array<float> log_p({n_rows(points), k});
  released([&] { w.top_k(points, k, {scale, n_threads, isa}, mutable_view(classes), mutable_view(log_p)); });
  return std::pair(classes, log_p);
}

auto best_wrong(const BoundWeights& w, const py::object& x, const Phi& phi, std::span<const Index> labels,
                std::span<Index> classes, Scale scale, int n_threads, Isa isa) {
  const AnyPoints points = w.points(x, phi);
  released([&] { w.top_wrong(points, labels, {scale, n_threads, isa}, classes); });
}

auto scores(const BoundWeights& w, const py::object& x, const Phi& phi, Scale scale, int n_threads, Isa isa) {
  const AnyPoints points = w.points(x, phi);
  Array<float> out({n_rows(points), w.n_classes()});
  released([&] { w.scores(points, {scale, n_threads, isa}, mutable_view(out)); });
  return out;
}

auto log_probabilities(const BoundWeights& w, const py::object& x, const Phi& phi, const std::string& noise,
                       const Matrix<const Index>& classes, Scale scale, int n_threads, Isa isa) {
  const AnyPoints points = w.points(x, phi);
  const bool all = classes.cols == 0;
  if (!all && classes.rows != n_rows(points)) {
    throw std::invalid_argument("classes must be of shape (N, m), a row for each point");
  }
  const Index width = all ? w.n_classes() : classes.cols;
  Array<double> out({n_rows(points), width});
  released([&] {
    utility_log_probabilities(noise_named(noise), w, points, classes.data, static_cast<std::size_t>(width),
                              {scale, n_threads, isa}, mutable_view(out));
  });
  return out;
}

auto not_excluded(std::span<const Index> rows, const Matrix<const Index>& found, std::span<const float> scores,
                  std::span<const Offset> indptr, std::span<const Index> excluded, Index k) {
  Array<Index> classes({found.rows, k});
  Array<float> values({found.rows, k});
  best_but({rows, found.data, scores, found.width()}, {indptr, excluded}, static_cast<std::size_t>(k),
           mutable_view(classes), mutable_view(values));
  return std::pair(classes, values);
}

PaddedRows padded_rows(std::span<const float> numbers, std::size_t width, std::size_t stride) {
  if (width > stride || (stride == 0 ? !numbers.empty() : numbers.size() % stride != 0)) {
    throw std::invalid_argument("the numbers are not rows of this width");
  }
  return {numbers, width, stride};
}

auto kept_numbers(std::span<const float> numbers, std::size_t width, std::size_t stride, std::uint32_t bar) {
  const PaddedRows rows = padded_rows(numbers, width, stride);
  const KeptNumbers kept = released([&] { return reaching(rows, bar); });
  return std::tuple(array_of(kept.indptr), array_of(kept.columns), array_of(kept.values));
}

auto byte_codes(std::span<const float> numbers, std::span<const Offset> starts) {
  auto codes = empty_array<std::int8_t>(numbers.size());
  auto scales = empty_array<float>(starts.empty() ? 0 : starts.size() - 1);
  const std::span<std::int8_t> out = mutable_view(codes);
  const std::span<float> out_scales = mutable_view(scales);
  released([&] { encode_bytes(numbers, starts, out, out_scales); });
  return std::pair(codes, scales);
}

auto feature_scaling(const py::object& x, py::ssize_t n_features, std::span<const double> row_weights, bool centre,
                     bool first_rows) {
  const AnyData data = data_view(x, n_features);
  const auto* sparse = std::get_if<CsrView>(&data);
  const FeatureScaling found = released([&] {
    return first_rows && sparse != nullptr ? scaling_of_first_rows(*sparse) : scaling_of(data, row_weights, centre);
  });
  return std::pair(array_of(found.shift), array_of(found.scale));
}

Array<float> scaled_features(const py::object& x, py::ssize_t n_features, std::span<const double> shift,
                             std::span<const double> scale) {
  const AnyData data = data_view(x, n_features);
  const auto* sparse = std::get_if<CsrView>(&data);
  auto out = sparse != nullptr ? empty_array<float>(sparse->data.size()) : Array<float>({n_rows(data), n_cols(data)});
  released([&] { scale_features(data, {shift, scale}, mutable_view(out)); });
  return out;
}

template <auto turn>
void turned(std::span<const double> shift, std::span<const double> scale, const Matrix<float>& matrix,
            std::span<float> intercept, bool by_feature) {
  released([&] { turn(ScalingView{shift, scale}, LinearWeights{matrix.data, matrix.width(), intercept, by_feature}); });
}

auto scores_of_labels(const py::object& x, std::span<const Index> labels, const Matrix<const float>& matrix,
                      std::span<const float> intercept, bool by_feature, py::ssize_t n_features) {
  const AnyData data = data_view(x, n_features);
  auto out = empty_array<double>(labels.size());
  const ConstLinearWeights weights{matrix.data, matrix.width(), intercept, by_feature};
  released([&] { label_scores(data, labels, weights, mutable_view(out)); });
  return out;
}

auto columns_of(const py::object& x, py::ssize_t n_features, std::span<const Index> columns) {
  const AnyData data = data_view(x, n_features);
  const auto* csr = std::get_if<CsrView>(&data);
  if (csr == nullptr) throw py::type_error("the data must be a tuple (indptr, indices, data)");
  const OwnedCsr found = released([&] { return some_columns(*csr, columns); });
  return std::tuple(array_of(found.indptr), array_of(found.indices), array_of(found.data));
}

LabelMixtures label_mixtures(const BoundWeights& w, const py::object& x, std::span<const Index> labels,
                             std::span<const double> weights) {
  const AnyData data = data_view(x, w.n_features);
  const auto* csr = std::get_if<CsrView>(&data);
  if (csr == nullptr) throw py::type_error("the data must be a tuple (indptr, indices, data)");
  return released([&] { return LabelMixtures(w, *csr, labels, weights); });
}

Fields<MixtureKind> kind_fields(const char* name) {
  return Fields<MixtureKind>(name)
      .needs<&MixtureKind::shrinkage, &MixtureKind::has_own, &MixtureKind::counts_own, &MixtureKind::power>();
}

// A mixture's numbers by name, whether repeats are mixed in, and the loss.
py::tuple as_tuple(const FoundMixture& found) {
  using namespace py::literals;
  return py::make_tuple(
      py::dict("share"_a = found.share, "shrinkage"_a = found.kind.shrinkage, "counts_own"_a = found.kind.counts_own,
               "repeats"_a = found.repeats, "power"_a = found.kind.power),
      found.kind.has_own, found.loss);
}

void bind_label_mixtures(py::module_& m) {
  const Fields<MixtureKind> kind = kind_fields("LabelMixtures.best_shares"),
                            of_loss = kind_fields("LabelMixtures.loss");
  list_fields(m, kind);
  list_fields(m, of_loss);
  py::class_<LabelMixtures>(m, "LabelMixtures")
      .def(py::init(&label_mixtures), "weights"_a, "x"_a, "labels"_a, "sample_weight"_a)
      .def(
          "add_scores",
          [](LabelMixtures& self, std::size_t first, const Matrix<const float>& scores) {
            released([&] { self.add_scores(first, scores.data); });
          },
          "first"_a, "scores"_a)
      .def(
          "loss",
          [of_loss](const LabelMixtures& self, double share, double repeats, const py::kwargs& given) {
            const std::vector<double> shares{share, repeats};
            std::vector<double> slopes(2);
            const double loss = self.loss(of_loss.of(given), shares, slopes);
            return std::pair(loss, slopes);
          },
          "share"_a, "repeats"_a)
      .def("best_shares",
           [kind](const LabelMixtures& self, const py::kwargs& given) {
             const MixtureKind own = kind.of(given);
             return as_tuple(released([&] { return self.best_shares(own); }));
           })
      .def("best", [](const LabelMixtures& self) -> py::object {
        const auto found = released([&] { return self.best(); });
        return found ? py::object(as_tuple(*found)) : py::none();
      });
}

}  // namespace

void bind_weights(py::module_& m) {
  Fields<CountMixture> fields("CountMixture");
  fields.takes<&CountMixture::counts, &CountMixture::totals, &CountMixture::own, &CountMixture::share,
               &CountMixture::shrinkage, &CountMixture::counts_own, &CountMixture::repeats, &CountMixture::power>();
  // Weights check it, when they are made of it.
  bind_struct(m, fields, [](const CountMixture&) {});
  const auto x = "x"_a, phi = "phi"_a, labels = "labels"_a, scale = "scale"_a, n_threads = "n_threads"_a;
  const auto isa = "isa"_a = "auto";
  py::class_<BoundWeights>(m, "Weights")
      .def(py::init<const Values&, Scale, bool, std::span<const Offset>, const AnyIds&, const Values&, Scale,
                    std::span<const float>, py::ssize_t, bool, const CountMixture&>(),
           py::kw_only(), "rows"_a, "row_scales"_a, "by_feature"_a, "indptr"_a, "classes"_a, "values"_a,
           "value_scales"_a, "intercept"_a, "n_features"_a, "coded"_a, "mixture"_a, KeepAll())
      .def("log_losses", &losses_and_ranks, x, phi, labels, scale, n_threads, isa)
      .def("log_normalizers", &normalizers, x, phi, scale, n_threads, isa)
      .def("top_k", &best, x, phi, "k"_a, scale, n_threads, isa)
      .def("top_wrong", &best_wrong, x, phi, labels, "classes"_a, scale, n_threads, isa)
      .def("scores", &scores, x, phi, scale, n_threads, isa)
      .def("log_probabilities", &log_probabilities, x, phi, "noise"_a, "classes"_a, scale, n_threads, isa);
  bind_label_mixtures(m);
  m.def("best_but", not_excluded, py::kw_only(), "rows"_a, "classes"_a, "values"_a, "indptr"_a, "excluded"_a, "k"_a);
  m.def(
      "magnitude_bar",
      [](std::span<const float> numbers, std::size_t width, std::size_t stride, std::size_t n_kept) {
        const PaddedRows rows = padded_rows(numbers, width, stride);
        return released([&] { return magnitude_bar(rows, n_kept); });
      },
      py::kw_only(), "numbers"_a, "width"_a, "stride"_a, "n_kept"_a);
  m.def("reaching", kept_numbers, py::kw_only(), "numbers"_a, "width"_a, "stride"_a, "bar"_a);
  m.def("byte_codes", byte_codes, "numbers"_a, "starts"_a);
  const auto shift = "shift"_a, factors = "scale"_a, matrix = "matrix"_a, intercept = "intercept"_a;
  m.def("label_scores", scores_of_labels, x, labels, matrix, intercept, "by_feature"_a, "n_features"_a);
  m.def("some_columns", columns_of, x, "n_features"_a, "columns"_a);
  m.def("feature_scaling", feature_scaling, x, "n_features"_a, py::kw_only(), "row_weights"_a, "centre"_a,
        "first_rows"_a);
  m.def("scaled_features", scaled_features, x, "n_features"_a, shift, factors);
  m.def("fold_scaling", turned<fold>, shift, factors, matrix, intercept, "by_feature"_a);
  m.def("unfold_scaling", turned<unfold>, shift, factors, matrix, intercept, "by_feature"_a);
  m.def(
      "n_held", [] { return n_held(); },
      "Questions of this thread so far with a score that was not finite, for which another one was taken.");
}

}  // namespace manyclass
