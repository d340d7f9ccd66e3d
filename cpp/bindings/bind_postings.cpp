// Weights on a support: the support and training.
#include <memory>

#include "bindings/fields.hpp"
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

struct PostingsCall {
  py::object x;
  py::ssize_t n_features = 0;
  std::span<const Offset> labels_indptr;
  std::span<const Index> labels;
  std::span<const Offset> indptr;
  std::span<const Index> classes;
  std::span<float> values, squares, intercept, intercept_squares;
  float offset = 0, intercept_offset = 0, rounding = 0;
  std::span<const double> sample_weight;
  std::string loss;
  Settings settings;
};

Fields<PostingsCall> trainer_fields() {
  using Call = PostingsCall;
  Fields<Settings> settings("Settings");
  settings.needs<&Settings::seed, &Settings::n_threads, &Settings::batch, &Settings::hogwild, &Settings::shuffle,
                 &Settings::isa>();
  settings.takes<&Settings::first_point>();
  Fields<Call> fields("postings_trainer");
  fields.needs<&Call::x, &Call::n_features, &Call::labels_indptr, &Call::labels, &Call::indptr, &Call::classes,
               &Call::values, &Call::squares, &Call::intercept, &Call::intercept_squares, &Call::offset,
               &Call::intercept_offset, &Call::loss, &Call::rounding>();
  fields.takes<&Call::sample_weight>();
  return fields.with<&Call::settings>(settings);
}

std::unique_ptr<Trainer> trainer(const PostingsCall& call) {
  const PostingsProblem problem{csr_of(call.x, call.n_features),
                                {call.labels_indptr, call.labels},
                                {call.indptr, call.classes},
                                call.values,
                                call.intercept,
                                {call.squares, call.offset},
                                {call.intercept_squares, call.intercept_offset},
                                call.sample_weight,
                                label_loss(call.loss, 0),
                                call.rounding};
  return postings_trainer(problem, call.settings);
}

}  // namespace

void bind_postings(py::module_& m) {
  m.def("support", &support, "x"_a, "n_features"_a, "labels_indptr"_a, "labels"_a, "n_classes"_a, "min_count"_a,
        "Pairs of a feature and a label that so many rows have: indptr and classes, by feature.");
  const Fields<PostingsCall> fields = trainer_fields();
  list_fields(m, fields);
  m.def("postings_trainer", [fields](const py::kwargs& given) { return trainer(fields.of(given)); }, KeepAll());
}

}  // namespace manyclass
