// Weights on a support: the support, training, and exact evaluation, beside the scores of embeddings or alone.
#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/log_loss.hpp"
#include "manyclass/evaluate/top_k.hpp"
#include "manyclass/train/postings.hpp"
#include "manyclass/train/support.hpp"

namespace manyclass {

namespace {

CsrView csr_of(const py::object& x, py::ssize_t n_features) {
  const AnyData data = data_view(x, n_features);
  const auto* csr = std::get_if<CsrView>(&data);
  if (csr == nullptr) throw py::type_error("the data must be a tuple (indptr, indices, data)");
  return *csr;
}

py::tuple support(const py::object& x, py::ssize_t n_features, std::span<const Offset> labels_indptr,
                  std::span<const Index> labels, Index n_classes, Index min_count) {
  const CsrView csr = csr_of(x, n_features);
  const OwnedSupport found = released([&] { return support_of(csr, {labels_indptr, labels}, n_classes, min_count); });
  return py::make_tuple(array_of(found.indptr), array_of(found.classes));
}

// The weights, and rows of classes over phi beside them where those are not empty.
struct PostingWeights {
  std::span<const Offset> indptr;
  std::span<const Index> classes;
  std::span<const float> values, intercept;
  Matrix<const float> rows;

  PostingWeights(std::span<const Offset> own_indptr, std::span<const Index> own_classes,
                 std::span<const float> own_values, std::span<const float> own_intercept,
                 const Matrix<const float>& own_rows)
      : indptr(own_indptr), classes(own_classes), values(own_values), intercept(own_intercept), rows(own_rows) {
    check(Support{indptr, classes}, indptr.empty() ? 0 : indptr.size() - 1, intercept.size(), "supported classes");
    if (values.size() != classes.size() || (!rows.data.empty() && rows.rows != n_classes())) {
      throw std::invalid_argument("the weights do not fit their support or the classes");
    }
  }

  Index n_classes() const { return static_cast<Index>(intercept.size()); }
};

// Calls f(data, model).
template <class F>
auto with_model(const PostingWeights& w, const py::object& x, const Matrix<const float>& phi, F&& f) {
  const CsrView csr = csr_of(x, static_cast<py::ssize_t>(w.indptr.size()) - 1);
  const PostingRows<const float> postings({w.indptr, w.classes}, w.values, w.n_classes());
  if (w.rows.data.empty()) return f(csr, PostingsModel{{postings, w.intercept, {}}, w.n_classes()});
  if (phi.rows != csr.n_rows() || phi.cols != w.rows.cols) {
    throw std::invalid_argument("phi does not fit the points or the rows of the classes");
  }
  const PairedRows rows{postings, ClassRows<const float>(w.rows.data, w.rows.cols)};
  return f(PairedView{csr, dense_view(phi), csr.n_cols}, PairedModel{{rows, w.intercept, {}}, w.n_classes()});
}

using Phi = Matrix<const float>;

auto losses_and_ranks(const PostingWeights& w, const py::object& x, const Phi& phi, std::span<const Index> labels,
                      int n_threads, Isa isa) {
  auto losses = empty_array<double>(labels.size());
  auto ranks = empty_array<Index>(labels.size());
  with_model(w, x, phi, [&](const auto& data, const auto& model) {
    released([&] { log_losses(data, labels, model, n_threads, isa, mutable_view(losses), mutable_view(ranks)); });
  });
  return std::pair(losses, ranks);
}

auto normalizers(const PostingWeights& w, const py::object& x, const Phi& phi, int n_threads, Isa isa) {
  return with_model(w, x, phi, [&](const auto& data, const auto& model) {
    Array<double> out(data.n_rows());
    released([&] { log_normalizers(data, model, n_threads, isa, mutable_view(out)); });
    return out;
  });
}

auto best(const PostingWeights& w, const py::object& x, const Phi& phi, Index k, int n_threads, Isa isa) {
  return with_model(w, x, phi, [&](const auto& data, const auto& model) {
    Array<Index> classes({data.n_rows(), k});
    Array<float> log_p({data.n_rows(), k});
    released([&] { top_k(data, model, k, n_threads, isa, mutable_view(classes), mutable_view(log_p)); });
    return std::pair(classes, log_p);
  });
}

auto scores(const PostingWeights& w, const py::object& x, const Phi& phi, int n_threads, Isa isa) {
  return with_model(w, x, phi, [&](const auto& data, const auto& model) {
    Array<float> out({data.n_rows(), w.n_classes()});
    released([&] { all_scores(data, model, n_threads, isa, mutable_view(out)); });
    return out;
  });
}

std::unique_ptr<Trainer> trainer(const py::object& x, py::ssize_t n_features, std::span<const Offset> labels_indptr,
                                 std::span<const Index> labels, std::span<const Offset> indptr,
                                 std::span<const Index> classes, std::span<float> values, std::span<float> squares,
                                 std::span<float> intercept, std::span<float> intercept_squares, float offset,
                                 float intercept_offset, std::span<const double> sample_weight, const std::string& loss,
                                 float rounding, std::uint64_t seed, std::uint64_t first_point, int n_threads,
                                 Index batch, bool hogwild, bool shuffle, Isa isa) {
  const PostingsProblem problem{csr_of(x, n_features),
                                {labels_indptr, labels},
                                {indptr, classes},
                                values,
                                intercept,
                                {squares, offset},
                                {intercept_squares, intercept_offset},
                                sample_weight,
                                label_loss(loss, 0),
                                rounding};
  Settings loop;
  loop.seed = seed;
  loop.first_point = first_point;
  loop.n_threads = n_threads;
  loop.batch = batch;
  loop.hogwild = hogwild;
  loop.shuffle = shuffle;
  loop.isa = isa;
  return postings_trainer(problem, loop);
}

}  // namespace

void bind_postings(py::module_& m) {
  m.def("support", &support, "x"_a, "n_features"_a, "labels_indptr"_a, "labels"_a, "n_classes"_a, "min_count"_a,
        "Pairs of a feature and a label that so many rows have: indptr and classes, by feature.");
  m.def("postings_trainer", &trainer, py::kw_only(), "x"_a, "n_features"_a, "labels_indptr"_a, "labels"_a, "indptr"_a,
        "classes"_a, "values"_a, "squares"_a, "intercept"_a, "intercept_squares"_a, "offset"_a, "intercept_offset"_a,
        "sample_weight"_a, "loss"_a, "rounding"_a, "seed"_a, "first_point"_a = 0, "n_threads"_a, "batch"_a, "hogwild"_a,
        "shuffle"_a, "isa"_a, KeepAll());
  py::class_<PostingWeights>(m, "PostingWeights")
      .def(py::init<std::span<const Offset>, std::span<const Index>, std::span<const float>, std::span<const float>,
                    Matrix<const float>>(),
           py::kw_only(), "indptr"_a, "classes"_a, "values"_a, "intercept"_a, "rows"_a, KeepAll())
      .def("log_losses", &losses_and_ranks, "x"_a, "phi"_a, "labels"_a, "n_threads"_a, "isa"_a = "auto")
      .def("log_normalizers", &normalizers, "x"_a, "phi"_a, "n_threads"_a, "isa"_a = "auto")
      .def("top_k", &best, "x"_a, "phi"_a, "k"_a, "n_threads"_a, "isa"_a = "auto")
      .def("scores", &scores, "x"_a, "phi"_a, "n_threads"_a, "isa"_a = "auto");
}

}  // namespace manyclass
