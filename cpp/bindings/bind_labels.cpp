// Training for points with several labels over dense features or embeddings.
#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "manyclass/train/labels.hpp"

namespace manyclass {

using namespace py::literals;

namespace {

// The arrays and the index that a trainer reads and moves; it keeps them alive.
struct LabelArrays {
  py::object x;  // dense, or (indptr, indices, data)
  Array<Offset> labels_indptr;
  Array<Index> labels;
  Array<float> embeddings, embedding_squares;  // D x width and D, or empty
  Array<float> classes, class_squares;         // K x width and K, the latter or empty
  py::ssize_t n_features;
  py::ssize_t n_hidden;
  bool intercept;
  bool relu;
};

struct BoundLabelTrainer {
  LabelArrays arrays;
  py::object index;
  Index n_points;
  std::unique_ptr<Trainer> trainer;
};

VectorRows vector_rows(Array<float>& rows, Array<float>& squares, std::size_t width, const char* what) {
  if (rows.size() % static_cast<py::ssize_t>(width) != 0 ||
      (squares.size() != 0 && squares.size() * static_cast<py::ssize_t>(width) != rows.size())) {
    throw std::invalid_argument(std::string("the ") + what + " do not fit their width or their squares");
  }
  return {mutable_view(rows), mutable_view(squares), width};
}

Excluded label_lists(const LabelArrays& arrays, std::size_t n_points, std::size_t n_classes) {
  const Excluded lists{view(arrays.labels_indptr), view(arrays.labels)};
  if (lists.indptr.size() != n_points + 1 || lists.indptr.front() != 0 ||
      lists.indptr.back() != static_cast<Offset>(lists.ids.size())) {
    throw std::invalid_argument("the labels are not a list for each point");
  }
  for (std::size_t i = 0; i < n_points; ++i) {
    if (lists.indptr[i + 1] <= lists.indptr[i]) throw std::invalid_argument("a point has no label");
    const std::span<const Index> of = lists.of(i);
    for (std::size_t p = 0; p < of.size(); ++p) {
      if (of[p] < 0 || static_cast<std::size_t>(of[p]) >= n_classes || (p > 0 && of[p] <= of[p - 1])) {
        throw std::invalid_argument("a point's labels are out of range, unsorted or repeated");
      }
    }
  }
  return lists;
}

LabelProblem label_problem(LabelArrays& arrays) {
  if (arrays.classes.ndim() != 2 || arrays.classes.shape(1) % static_cast<py::ssize_t>(line_floats) != 0) {
    throw std::invalid_argument("the classes are not rows of whole cache lines");
  }
  const auto width = static_cast<std::size_t>(arrays.classes.shape(1));
  LabelProblem problem;
  problem.classes = vector_rows(arrays.classes, arrays.class_squares, width, "classes");
  if (py::isinstance<py::tuple>(arrays.x)) {
    const auto parts = arrays.x.cast<py::tuple>();
    problem.map.x = csr_view(parts[0].cast<Array<Offset>>(), parts[1].cast<Array<Index>>(),
                             parts[2].cast<Array<float>>(), arrays.n_features);
  } else {
    problem.map.x = dense_view(arrays.x.cast<Array<float>>());
  }
  problem.map.n_hidden = static_cast<std::size_t>(arrays.n_hidden);
  problem.map.intercept = arrays.intercept;
  problem.map.relu = arrays.relu;
  const auto n_columns =
      static_cast<std::size_t>(std::visit([](const auto& data) { return data.n_cols; }, problem.map.x));
  problem.map.embeddings = vector_rows(arrays.embeddings, arrays.embedding_squares, width, "embeddings");
  if (arrays.n_hidden < 1 || problem.map.n_hidden + (arrays.intercept ? 1 : 0) > width ||
      (problem.map.learns() ? problem.map.embeddings.size() : problem.map.n_hidden) != n_columns) {
    throw std::invalid_argument("the features, the embeddings and the classes do not fit each other");
  }
  problem.labels = label_lists(arrays, problem.map.n_points(), problem.classes.size());
  return problem;
}

// What a source draws by; see sampled_source.
AnySelect label_selection(const LabelProblem& problem, const std::string& selection, py::ssize_t n_negatives,
                          Options options, bool share) {
  const Facts& facts = selection_facts[place_of("selection", selection, selection_facts)];
  if (facts.has(flag::heads)) throw std::invalid_argument("selection '" + selection + "' has no heads here");
  check_options(options, {&facts, 1}, "selection '" + selection + "'");
  SelectArguments arguments{static_cast<Index>(problem.classes.size()), as_index(n_negatives, "n_negatives"),
                            problem.labels.ids, share};
  arguments.options = std::move(options);
  return select_named(selection, arguments);
}

template <class Rows>
SearchOptions search_options(const LabelProblem& problem, const Rows& index, py::ssize_t budget, py::ssize_t n_probe) {
  if (index.n_rows() != problem.classes.size() || index.n_features() != problem.map.n_columns() || n_probe < 1 ||
      static_cast<std::size_t>(n_probe) > index.n_clusters() || budget < 1 ||
      static_cast<std::size_t>(budget) > index.n_rows()) {
    throw std::invalid_argument("the index does not fit the classes or the options");
  }
  return {static_cast<std::size_t>(budget), static_cast<std::size_t>(n_probe)};
}

}  // namespace

void bind_labels(py::module_& m) {
  py::class_<LabelArrays>(m, "LabelArrays")
      .def(py::init([](py::object x, Array<Offset> labels_indptr, Array<Index> labels, Array<float> embeddings,
                       Array<float> embedding_squares, Array<float> classes, Array<float> class_squares,
                       py::ssize_t n_features, py::ssize_t n_hidden, bool intercept, bool relu) {
             return LabelArrays{std::move(x),      labels_indptr, labels,        embeddings,
                                embedding_squares, classes,       class_squares, n_features,
                                n_hidden,          intercept,     relu};
           }),
           py::kw_only(), "x"_a, "labels_indptr"_a.noconvert(), "labels"_a.noconvert(), "embeddings"_a.noconvert(),
           "embedding_squares"_a.noconvert(), "classes"_a.noconvert(), "class_squares"_a.noconvert(), "n_features"_a,
           "n_hidden"_a, "intercept"_a, "relu"_a);

  py::class_<BoundLabelTrainer>(m, "LabelTrainer")
      .def(py::init([](LabelArrays arrays, const std::string& loss, double smoothing, bool implicit,
                       const std::string& source, const std::string& selection, py::ssize_t n_negatives,
                       const Options& options, bool log_alpha, bool share, py::object index, py::ssize_t budget,
                       py::ssize_t n_probe, std::uint64_t seed, int n_threads, py::ssize_t batch, bool shuffle,
                       const std::string& isa) {
             const LabelProblem problem = label_problem(arrays);
             const SourceSettings settings{
                 problem.classes, problem.map.n_columns(), label_loss(loss, smoothing), implicit,
                 n_threads,       isa_named(isa)};
             std::unique_ptr<ClassSource> classes;
             if (source == "exact") {
               classes = all_classes_source(settings);
             } else if (source == "sampled") {
               classes = sampled_source(settings, label_selection(problem, selection, n_negatives, options, share),
                                        log_alpha, share);
             } else if (source == "mips") {
               auto& rows = index.cast<ClusterIndex&>();
               classes = searched_source(settings, rows, search_options(problem, rows, budget, n_probe));
             } else if (source == "decomposed" || source == "messages") {
               auto& rows = index.cast<DecomposedIndex&>();
               classes = decomposed_source(settings, rows, search_options(problem, rows, budget, n_probe),
                                           source == "messages");
             } else {
               place_of("source", source, class_source_facts);  // throws, as it is none of these
             }
             if (batch < 1 || n_threads < 1) throw std::invalid_argument("batch and n_threads must be at least 1");
             Settings loop;
             loop.seed = seed;
             loop.n_threads = n_threads;
             loop.batch = as_index(batch, "batch");
             loop.shuffle = shuffle;
             loop.share_classes = share;
             loop.isa = isa_named(isa);
             auto trainer = label_trainer(problem, std::move(classes), loop);
             return BoundLabelTrainer{std::move(arrays), std::move(index), static_cast<Index>(problem.map.n_points()),
                                      std::move(trainer)};
           }),
           "arrays"_a, py::kw_only(), "loss"_a, "smoothing"_a, "implicit"_a, "source"_a, "selection"_a, "n_negatives"_a,
           "options"_a, "log_alpha"_a, "share"_a, "index"_a, "budget"_a, "n_probe"_a, "seed"_a, "n_threads"_a,
           "batch"_a, "shuffle"_a, "isa"_a)
      .def(
          "run",
          [](BoundLabelTrainer& self, int epoch, double eta, double eta_u, py::ssize_t first, py::ssize_t last,
             double loss) {
            const Stretch stretch{epoch, eta, eta_u, as_index(first, "first"), as_index(last, "last"), loss};
            if (stretch.first > stretch.last || stretch.last > self.n_points) {
              throw std::invalid_argument("no such visits");
            }
            const py::gil_scoped_release nogil;
            return self.trainer->run(stretch);
          },
          py::kw_only(), "epoch"_a, "eta"_a, "eta_u"_a, "first"_a, "last"_a, "loss"_a);
}

}  // namespace manyclass
