// Weights on a support: the support and training.
#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
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
}

}  // namespace manyclass
