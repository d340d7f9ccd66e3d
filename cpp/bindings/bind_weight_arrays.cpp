// Functions of the arrays of weights: in fewer bits, for scaled or hashed features, and the scores of labels.
#include <cstdint>
#include <span>
#include <variant>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/weights/encode.hpp"
#include "manyclass/weights/feature_hash.hpp"
#include "manyclass/weights/feature_scaling.hpp"
#include "manyclass/weights/label_scores.hpp"
#include "manyclass/weights/placing.hpp"

namespace manyclass {

namespace {

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
  const FeatureScaling scaling = released([&] {
    return first_rows && sparse != nullptr ? scaling_of_first_rows(*sparse) : scaling_of(data, row_weights, centre);
  });
  return std::pair(array_of(scaling.shift), array_of(scaling.scale));
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

}  // namespace

void bind_weight_arrays(Module& m) {
  m.def(
      "magnitude_bar",
      [](std::span<const float> numbers, std::size_t width, std::size_t stride, std::size_t n_kept) {
        const PaddedRows rows = padded_rows(numbers, width, stride);
        return released([&] { return magnitude_bar(rows, n_kept); });
      },
      py::kw_only(), "numbers"_a, "width"_a, "stride"_a, "n_kept"_a);
  m.def("reaching", kept_numbers, py::kw_only(), "numbers"_a, "width"_a, "stride"_a, "bar"_a);
  m.def(
      "hash_features",
      [](const py::object& rows, py::ssize_t n_features, Index n_columns, std::uint32_t seed) {
        const CsrView csr = csr_of(rows, n_features);
        const HashedRows hashed = released([&] { return hash_features(csr, n_columns, seed); });
        return std::tuple(array_of(hashed.indptr), array_of(hashed.indices), array_of(hashed.values));
      },
      "x"_a, "n_features"_a, "n_columns"_a, "seed"_a);
  m.def(
      "place_classes",
      [](const Matrix<const float>& from, std::span<const std::int64_t> position, bool of_columns,
         const Matrix<float>& to) {
        const ClassArray own{from.width(), of_columns}, all{to.width(), of_columns};
        released([&] { place_classes(from.data, own, position, to.data, all); });
      },
      "from_"_a, "position"_a, "of_columns"_a, "to"_a);
  m.def("byte_codes", byte_codes, "numbers"_a, "starts"_a);
  const auto shift = "shift"_a, factors = "scale"_a, matrix = "matrix"_a, intercept = "intercept"_a;
  const auto x = "x"_a;
  m.def("label_scores", scores_of_labels, x, "labels"_a, matrix, intercept, "by_feature"_a, "n_features"_a);
  m.def("feature_scaling", feature_scaling, x, "n_features"_a, py::kw_only(), "row_weights"_a, "centre"_a,
        "first_rows"_a);
  m.def("scaled_features", scaled_features, x, "n_features"_a, shift, factors);
  m.def("fold_scaling", turned<fold>, shift, factors, matrix, intercept, "by_feature"_a);
  m.def("unfold_scaling", turned<unfold>, shift, factors, matrix, intercept, "by_feature"_a);
}

}  // namespace manyclass
