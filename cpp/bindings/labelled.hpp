// Data with labels and a linear model, as functions of the exact loss take them.
#pragma once

#include <stdexcept>
#include <string>

#include "bindings/fields.hpp"
#include "manyclass/exact/double_scores.hpp"

namespace manyclass {

// Data with labels, and a linear model in the layout for them: feature-major weights are (D, K or more), class-major
// ones (K, D).
template <class Weight>
struct Labelled {
  py::object x;
  py::ssize_t n_features = 0;
  Matrix<const Weight> matrix;
  std::span<const double> intercept;
  Index n_classes = 0;
  std::span<const Index> labels;
  std::span<const double> sample_weight;  // of the points: none, or one for each
  int n_threads = 1;
  Isa isa = best_isa();
};

template <class Weight>
Fields<Labelled<Weight>> labelled_fields() {
  using Data = Labelled<Weight>;
  Fields<Data> fields("Labelled");
  fields.template needs<&Data::x, &Data::n_features, &Data::matrix, &Data::intercept, &Data::n_classes, &Data::labels,
                        &Data::n_threads>();
  return fields.template takes<&Data::sample_weight, &Data::isa>();
}

template <class Weight>
DoubleModel<FeatureMajor<Weight>> model_of(const CsrView& x, const Labelled<Weight>& of) {
  if (of.matrix.rows != x.n_cols || of.matrix.cols < of.n_classes) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  return {{of.matrix.data, of.matrix.width()}, of.intercept, of.n_classes};
}

template <class Weight>
DoubleModel<ClassMajor<Weight>> model_of(const DenseView& x, const Labelled<Weight>& of) {
  if (of.matrix.rows != of.n_classes || of.matrix.cols != x.n_cols) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  return {{of.matrix.data, of.matrix.width()}, of.intercept, of.n_classes};
}

// Calls f(data view, model) without the GIL.
template <class Weight, class F>
auto with_model(const Labelled<Weight>& of, F&& f) {
  if (!of.sample_weight.empty() && of.sample_weight.size() != of.labels.size()) {
    throw std::invalid_argument("sample_weight has " + std::to_string(of.sample_weight.size()) +
                                " values; it must have " + std::to_string(of.labels.size()));
  }
  return std::visit(
      [&](const auto& data) {
        const auto model = model_of(data, of);
        return released([&] {
          check(data, of.labels, model);
          return f(data, model);
        });
      },
      data_view(of.x, of.n_features));
}

}  // namespace manyclass
