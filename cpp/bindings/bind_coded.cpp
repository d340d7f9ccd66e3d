// Exact evaluation of weights in fewer bits: by feature, by class, on pairs, or on pairs beside classes.
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/log_loss.hpp"
#include "manyclass/evaluate/top_k.hpp"

namespace manyclass {

namespace {

using Values = std::variant<std::span<const float>, std::span<const std::uint16_t>, std::span<const std::int8_t>>;

AnyCodes codes_of(const Values& values, std::span<const float> scales) {
  return std::visit(
      [&](const auto& some) {
        using Value = std::remove_const_t<typename std::remove_cvref_t<decltype(some)>::element_type>;
        return AnyCodes(Codes<Value>{some, scales});
      },
      values);
}

std::size_t size_of(const Values& values) {
  return std::visit([](const auto& some) { return some.size(); }, values);
}

// Rows of features or of classes, or none; and postings of features, or none.
struct CodedWeights {
  AnyCodes rows, values;
  std::span<const Offset> indptr;
  AnyIds ids;
  std::span<const float> intercept;
  Index n_features;
  std::size_t width;   // of the rows; 0: there are none
  bool feature_major;  // whose rows are: a point is scored by its sparse features, not by phi

  CodedWeights(const Values& own_rows, std::span<const float> row_scales, bool by_feature,
               std::span<const Offset> own_indptr, const AnyIds& own_ids, const Values& own_values,
               std::span<const float> value_scales, std::span<const float> own_intercept, py::ssize_t features)
      : rows(codes_of(own_rows, row_scales)),
        values(codes_of(own_values, value_scales)),
        indptr(own_indptr),
        ids(own_ids),
        intercept(own_intercept),
        n_features(as_index(features, "the number of features")),
        width(0),
        feature_major(by_feature) {
    const std::size_t n_rows = by_feature ? static_cast<std::size_t>(n_features) : intercept.size();
    const std::size_t size = size_of(own_rows), n_ids = std::visit([](const auto& some) { return some.size(); }, ids);
    if (size > 0) {
      width = n_rows == 0 ? 0 : size / n_rows;
      const bool padded = !by_feature || (width % line_floats == 0 && width >= intercept.size() && indptr.empty());
      if (width == 0 || size % n_rows != 0 || !padded || (!row_scales.empty() && row_scales.size() != n_rows)) {
        throw std::invalid_argument("the rows do not fit the classes, the features or their scales");
      }
    }
    if (!indptr.empty()) check_postings(indptr, ids, as_size(n_features), intercept.size(), "supported classes");
    if (n_ids != size_of(own_values) || (!value_scales.empty() && value_scales.size() + 1 != indptr.size())) {
      throw std::invalid_argument("the weights do not fit their support or its scales");
    }
    if (width == 0 && indptr.empty()) throw std::invalid_argument("there are no weights");
  }

  static std::size_t as_size(Index n) { return static_cast<std::size_t>(n); }
  Index n_classes() const { return static_cast<Index>(intercept.size()); }
};

using Phi = Matrix<const float>;

CsrView csr_of(const py::object& x, Index n_features) {
  const AnyData data = data_view(x, n_features);
  const auto* csr = std::get_if<CsrView>(&data);
  if (csr == nullptr) throw py::type_error("the data must be a tuple (indptr, indices, data)");
  return *csr;
}

template <class Data>
CodedModel<Data> model_of(const CodedRows<Data>& rows, const CodedWeights& w) {
  return {{rows, w.intercept, {}}, w.n_classes()};
}

// Calls f(data, model). Where rows are those of classes, phi has the points; x has them where there is anything else.
template <class F>
auto with_model(const CodedWeights& w, const py::object& x, const Phi& phi, Isa isa, F&& f) {
  std::optional<CodedRows<CsrView>> by_feature;
  if (!w.indptr.empty()) {
    by_feature = coded_postings(w.indptr, w.ids, w.values, w.n_classes(), isa);
  } else if (w.feature_major) {
    by_feature = coded_features(w.rows, w.n_features, isa);
  }
  if (w.width == 0 || w.feature_major) {
    const CsrView csr = csr_of(x, w.n_features);
    // Weights without rows have an indptr: the constructor refuses those that have neither.
    return f(csr, model_of(by_feature.value(), w));
  }
  if (static_cast<std::size_t>(phi.cols) != w.width) throw std::invalid_argument("phi does not fit the rows");
  const CodedRows<DenseView> classes = coded_classes(w.rows, phi.cols, isa);
  if (!by_feature) return f(dense_view(phi), model_of(classes, w));
  const CsrView csr = csr_of(x, w.n_features);
  if (phi.rows != csr.n_rows()) throw std::invalid_argument("phi does not fit the points");
  return f(PairedView{csr, dense_view(phi), csr.n_cols}, model_of(coded_pairs(*by_feature, classes), w));
}

auto losses_and_ranks(const CodedWeights& w, const py::object& x, const Phi& phi, std::span<const Index> labels,
                      int n_threads, Isa isa) {
  auto losses = empty_array<double>(labels.size());
  auto ranks = empty_array<Index>(labels.size());
  with_model(w, x, phi, isa, [&](const auto& data, const auto& model) {
    released([&] { log_losses(data, labels, model, n_threads, isa, mutable_view(losses), mutable_view(ranks)); });
  });
  return std::pair(losses, ranks);
}

auto normalizers(const CodedWeights& w, const py::object& x, const Phi& phi, int n_threads, Isa isa) {
  return with_model(w, x, phi, isa, [&](const auto& data, const auto& model) {
    Array<double> out(data.n_rows());
    released([&] { log_normalizers(data, model, n_threads, isa, mutable_view(out)); });
    return out;
  });
}

auto best(const CodedWeights& w, const py::object& x, const Phi& phi, Index k, int n_threads, Isa isa) {
  return with_model(w, x, phi, isa, [&](const auto& data, const auto& model) {
    Array<Index> classes({data.n_rows(), k});
    Array<float> log_p({data.n_rows(), k});
    released([&] { top_k(data, model, k, n_threads, isa, mutable_view(classes), mutable_view(log_p)); });
    return std::pair(classes, log_p);
  });
}

auto scores(const CodedWeights& w, const py::object& x, const Phi& phi, int n_threads, Isa isa) {
  return with_model(w, x, phi, isa, [&](const auto& data, const auto& model) {
    Array<float> out({data.n_rows(), w.n_classes()});
    released([&] { all_scores(data, model, n_threads, isa, mutable_view(out)); });
    return out;
  });
}

}  // namespace

void bind_coded(py::module_& m) {
  py::class_<CodedWeights>(m, "CodedWeights")
      .def(py::init<const Values&, std::span<const float>, bool, std::span<const Offset>, const AnyIds&, const Values&,
                    std::span<const float>, std::span<const float>, py::ssize_t>(),
           py::kw_only(), "rows"_a, "row_scales"_a, "feature_major"_a, "indptr"_a, "ids"_a, "values"_a,
           "value_scales"_a, "intercept"_a, "n_features"_a, KeepAll())
      .def("log_losses", &losses_and_ranks, "x"_a, "phi"_a, "labels"_a, "n_threads"_a, "isa"_a = "auto")
      .def("log_normalizers", &normalizers, "x"_a, "phi"_a, "n_threads"_a, "isa"_a = "auto")
      .def("top_k", &best, "x"_a, "phi"_a, "k"_a, "n_threads"_a, "isa"_a = "auto")
      .def("scores", &scores, "x"_a, "phi"_a, "n_threads"_a, "isa"_a = "auto");
}

}  // namespace manyclass
