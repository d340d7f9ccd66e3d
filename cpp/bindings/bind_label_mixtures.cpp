// What mixtures of a softmax, counts and repeats say of labels.
#include <vector>

#include "bindings/bound_weights.hpp"
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/evaluate/label_mixtures.hpp"

namespace manyclass {

namespace {

LabelMixtures label_mixtures(const BoundWeights& w, const py::object& x, std::span<const Index> labels,
                             std::span<const double> weights) {
  const CsrView csr = csr_of(x, w.n_features);
  return released([&] { return LabelMixtures(w, csr, labels, weights); });
}

Fields<MixtureKind> kind_fields(const char* name) {
  return Fields<MixtureKind>(name)
      .needs<&MixtureKind::shrinkage, &MixtureKind::has_own, &MixtureKind::counts_own, &MixtureKind::power,
             &MixtureKind::rate>();
}

// A mixture's numbers by name, whether repeats are mixed in, and the loss.
py::tuple as_tuple(const FoundMixture& found) {
  using namespace py::literals;
  return py::make_tuple(
      py::dict("share"_a = found.share, "shrinkage"_a = found.kind.shrinkage, "counts_own"_a = found.kind.counts_own,
               "repeats"_a = found.repeats, "power"_a = found.kind.power, "rate"_a = found.kind.rate),
      found.kind.has_own, found.loss);
}

}  // namespace

void bind_label_mixtures(Module& m) {
  const Fields<MixtureKind> kind = kind_fields("LabelMixtures.best_shares"),
                            of_loss = kind_fields("LabelMixtures.loss");
  list_fields(m, kind);
  list_fields(m, of_loss);
  Class<LabelMixtures>(m, "LabelMixtures")
      .def(constructor(&label_mixtures), "weights"_a, "x"_a, "labels"_a, "sample_weight"_a)
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
             const MixtureKind mixture = kind.of(given);
             return as_tuple(released([&] { return self.best_shares(mixture); }));
           })
      .def("best", [](const LabelMixtures& self) -> py::object {
        const auto mixture = released([&] { return self.best(); });
        return mixture ? py::object(as_tuple(*mixture)) : py::none();
      });
}

}  // namespace manyclass
