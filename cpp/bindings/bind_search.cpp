// Search: spherical k-means, the indexes that it makes, and losses from what a search finds.
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/search/approximate_losses.hpp"
#include "manyclass/search/byte_rows.hpp"
#include "manyclass/search/class_search.hpp"
#include "manyclass/search/heads.hpp"
#include "manyclass/search/log_normalizer.hpp"
#include "manyclass/search/recall.hpp"
#include "manyclass/search/results.hpp"
#include "manyclass/search/spherical_kmeans.hpp"

namespace manyclass {

namespace {

RowsView rows_view(const Matrix<const float>& x) { return {x.data.data(), x.width()}; }

py::dict kmeans(const Matrix<const float>& rows, Index n_clusters, int n_iter, Index sample_per_cluster, float radius,
                std::uint64_t seed, int n_threads, Isa isa) {
  const Directions directions(rows.width(), radius);
  const KMeansOptions options{
      static_cast<std::size_t>(n_clusters), n_iter, static_cast<std::size_t>(sample_per_cluster), seed, n_threads, isa};
  const KMeansResult result = released(
      [&] { return spherical_kmeans(rows_view(rows), static_cast<std::size_t>(rows.rows), directions, options); });
  py::list mean_cosine, moved, repaired, sizes;
  for (const KMeansIteration& iteration : result.iterations) {
    mean_cosine.append(iteration.mean_cosine);
    moved.append(iteration.moved);
    repaired.append(iteration.repaired);
    sizes.append(array_of(iteration.sizes));
  }
  return py::dict("centroids"_a = matrix_of<float>(result.centroids, directions.n_features()),
                  "n_sampled"_a = result.n_sampled, "mean_cosine"_a = mean_cosine, "moved"_a = moved,
                  "repaired"_a = repaired, "sizes"_a = sizes);
}

// Codes that stand alone, and those of 4 bits, whose levels are those of normal numbers, are of rotated rows.
Coding coding_of(std::size_t n_features, int code_bits, int row_bits) {
  if ((code_bits != 8 && code_bits != 4) || (row_bits != 32 && row_bits != 16 && row_bits != 0)) {
    throw std::invalid_argument("codes have 8 or 4 bits, rows 32, 16 or 0");
  }
  Coding coding{n_features, code_bits, row_bits, nullptr};
  if (coding.alone() || code_bits == 4) coding.rotation = std::make_shared<const Rotation>(n_features);
  return coding;
}

std::unique_ptr<ClusterIndex> whole(const Matrix<const float>& rows, const Matrix<const float>& centroids, float radius,
                                    std::span<const Index> labels, int n_threads, int code_bits, int row_bits,
                                    Isa isa) {
  const Directions directions(rows.width(), radius);
  if (centroids.width() != directions.n_features()) throw std::invalid_argument("the centroids do not fit the rows");
  return released([&] {
    return std::make_unique<ClusterIndex>(
        rows_view(rows), static_cast<std::size_t>(rows.rows), coding_of(rows.width(), code_bits, row_bits), directions,
        std::vector(centroids.data.begin(), centroids.data.end()), labels, n_threads, isa);
  });
}

std::unique_ptr<ClusterIndex> of_codes(const Matrix<const std::uint8_t>& codes, const Matrix<const float>& centroids,
                                       float radius, std::span<const Index> labels, int n_threads, int code_bits,
                                       int row_bits, Isa isa) {
  const Directions directions(centroids.width() - (radius > 0 ? 1 : 0), radius);
  const Coding coding = coding_of(centroids.width() - (radius > 0 ? 1 : 0), code_bits, row_bits);
  if (!coding.alone() || codes.rows < 1 || coding.n_features < 1 || codes.width() != CodeBlock::bytes_of_code(coding)) {
    throw std::invalid_argument("the codes do not fit their bits or the centroids");
  }
  return released([&] {
    return std::make_unique<ClusterIndex>(std::as_bytes(codes.data), coding, directions,
                                          std::vector(centroids.data.begin(), centroids.data.end()), labels, n_threads,
                                          isa);
  });
}

// A copy of the rows, decoded where they are codes.
Array<float> rows_of(const ClusterIndex& index) {
  Array<float> rows({static_cast<Index>(index.n_rows()), static_cast<Index>(index.n_features())});
  const std::span<float> out = mutable_view(rows);
  released([&] {
    for (std::size_t id = 0; id < index.n_rows(); ++id) {
      index.read(static_cast<Index>(id), out.subspan(id * index.n_features(), index.n_features()));
    }
  });
  return rows;
}

Array<float> rows_of(const DecomposedIndex& index) {
  return matrix_of(std::span(index.rows().data, index.n_rows() * index.n_features()), index.n_features());
}

// What makes the index anew: the rows, or the codes that are all that is left of them.
template <class AnyIndex>
py::object stored(const AnyIndex& index) {
  if constexpr (std::same_as<AnyIndex, ClusterIndex>) {
    if (index.coding().alone()) {
      const std::vector<std::byte> codes = released([&] { return index.codes(); });
      const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(codes.data()), codes.size());
      return matrix_of(bytes, CodeBlock::bytes_of_code(index.coding()));
    }
  }
  return rows_of(index);
}

std::unique_ptr<DecomposedIndex> blocks(const Matrix<const float>& rows,
                                        const std::vector<Matrix<const float>>& centroids,
                                        const std::vector<std::span<const Index>>& labels, int n_threads, Isa isa) {
  std::vector<std::vector<float>> units;
  units.reserve(centroids.size());
  for (const Matrix<const float>& block : centroids) units.emplace_back(block.data.begin(), block.data.end());
  std::vector<std::vector<Index>> clusters;
  clusters.reserve(labels.size());
  for (const std::span<const Index> block : labels) clusters.emplace_back(block.begin(), block.end());
  return released([&] {
    return std::make_unique<DecomposedIndex>(std::vector(rows.data.begin(), rows.data.end()), rows.width(),
                                             std::move(units), clusters, n_threads, isa);
  });
}

// A query is no struct made of keywords: a single one waits for each microsecond.
Request request_of(std::size_t k, std::span<const float> thresholds, std::size_t n_probe,
                   std::span<const Offset> excluded_indptr, std::span<const Index> excluded_ids, int n_threads,
                   Isa isa) {
  return {k, thresholds, n_probe, {excluded_indptr, excluded_ids}, n_threads, isa};
}

auto query(const ClusterIndex& index, const py::object& x, Index k, std::size_t n_probe,
           std::span<const Offset> excluded_indptr, std::span<const Index> excluded_ids, int n_threads, Isa isa) {
  const Queries queries = data_view(x, static_cast<py::ssize_t>(index.n_features()));
  const auto width = static_cast<std::size_t>(k);
  const Request request = request_of(width, {}, n_probe, excluded_indptr, excluded_ids, n_threads, isa);
  if (k < 1) throw std::invalid_argument("k is out of range");
  check(request, queries, index);
  Array<float> scores({n_rows(queries), k});
  Array<Offset> ids({n_rows(queries), k});
  const std::span<float> out_scores = mutable_view(scores);
  const std::span<Offset> out_ids = mutable_view(ids);
  released([&] { search_into(index, queries, request, out_scores, out_ids); });
  return std::pair(scores, ids);
}

auto query_above(const ClusterIndex& index, const py::object& x, std::span<const float> thresholds, std::size_t n_probe,
                 std::span<const Offset> excluded_indptr, std::span<const Index> excluded_ids, int n_threads, Isa isa) {
  const Queries queries = data_view(x, static_cast<py::ssize_t>(index.n_features()));
  const Request request = request_of(0, thresholds, n_probe, excluded_indptr, excluded_ids, n_threads, isa);
  check(request, queries, index);
  const Lists lists = released([&] { return rows_above(index, queries, request); });
  return std::tuple(array_of(lists.indptr), array_of(lists.ids), array_of(lists.scores));
}

auto query_blocks(const DecomposedIndex& index, const Matrix<const float>& x, Index k, std::size_t budget,
                  std::size_t n_probe, std::span<const Offset> excluded_indptr, std::span<const Index> excluded_ids,
                  int n_threads, Isa isa) {
  constexpr std::size_t share = 100;  // of the classes, which each block finds where the caller says nothing
  budget = budget > 0 ? budget : std::max(static_cast<std::size_t>(k), (index.n_rows() + share - 1) / share);
  const FindOptions options{budget, 0, n_probe, isa};
  const Excluded excluded{excluded_indptr, excluded_ids};
  Array<float> scores({x.rows, k});
  Array<Offset> ids({x.rows, k});
  const std::span<float> out_scores = mutable_view(scores);
  const std::span<Offset> out_ids = mutable_view(ids);
  released([&] {
    search_into(index, dense_view(x), static_cast<std::size_t>(k), options, excluded, n_threads, out_scores, out_ids);
  });
  return std::pair(scores, ids);
}

// (log Z less the best score, its standard deviation) of each query, by what `query` has found and a sample of the
// rest.
auto normalizers(const ClusterIndex& index, const py::object& x, std::span<const float> scores,
                 const Matrix<const Offset>& ids, std::size_t sample_size, std::uint64_t seed, std::uint64_t first,
                 int n_threads, Isa isa) {
  const Queries queries = data_view(x, static_cast<py::ssize_t>(index.n_features()));
  const Found found{ids.data, scores, ids.width()};
  Array<double> values(n_rows(queries)), errors(n_rows(queries));
  const std::span<double> out = mutable_view(values), out_errors = mutable_view(errors);
  released(
      [&] { log_normalizers(index, queries, found, {sample_size, seed, first}, n_threads, isa, out, out_errors); });
  return std::pair(values, errors);
}

// (ids, log-probabilities, standard deviations of the logarithms of normalisers) of the best classes of each query.
auto classes_of(const ClusterIndex& index, const py::object& x, std::size_t k, std::size_t n_head, std::size_t n_tail,
                std::size_t n_probe, std::uint64_t seed, std::uint64_t first, int n_threads) {
  const Queries queries = data_view(x, static_cast<py::ssize_t>(index.n_features()));
  const ClassSearch search{k, n_head, n_tail, n_probe, seed, first, n_threads, best_isa()};
  const ClassesFound classes = released([&] { return best_classes(index, queries, search); });
  return std::tuple(matrix_of<Index>(classes.ids, k), matrix_of<float>(classes.log_p, k), array_of(classes.std));
}

Array<float> class_rows(const py::array_t<float>& weights, std::span<const float> scale,
                        std::span<const float> intercept) {
  if (weights.ndim() != 2) throw std::invalid_argument("the weights must have 2 dimensions");
  constexpr auto size = static_cast<py::ssize_t>(sizeof(float));
  const StridedRows rows{weights.data(), weights.strides(0) / size, weights.strides(1) / size,
                         static_cast<std::size_t>(weights.shape(0)), static_cast<std::size_t>(weights.shape(1))};
  const std::vector<float> centred = released([&] { return centred_class_rows(rows, scale, intercept); });
  return matrix_of<float>(centred, rows.n_features + (intercept.empty() ? 0 : 1));
}

// What is asked of an index about losses of queries with labels.
struct LossQuestion {
  Matrix<const float> x;
  Excluded labels;
  std::string loss;
  double smoothing = 0;
  GmpOptions options{.find = {.isa = best_isa()}};
  int n_threads = 1;
};

Fields<LossQuestion> loss_fields(const char* name) {
  Fields<Excluded> labels("Excluded");
  labels.member_as<&Excluded::indptr>("labels_indptr", true).member_as<&Excluded::ids>("labels", true);
  Fields<FindOptions> find("FindOptions");
  find.needs<&FindOptions::budget, &FindOptions::threshold, &FindOptions::n_probe>();
  find.takes<&FindOptions::isa, &FindOptions::fill>();
  Fields<GmpOptions> options("GmpOptions");
  options.with<&GmpOptions::find>(find);
  options.needs<&GmpOptions::until_enough, &GmpOptions::n_iter, &GmpOptions::tolerance>();
  options.add("step", true, [](GmpOptions& o, py::handle step) { o.step = gmp_step_named(step.cast<std::string>()); });
  options.add("rest", true, [](GmpOptions& o, py::handle rest) { o.rest = rest_named(rest.cast<std::string>()); });
  options.add("answer", true,
              [](GmpOptions& o, py::handle answer) { o.answer = gmp_answer_named(answer.cast<std::string>()); });
  options.add("rule", false, [](GmpOptions& o, py::handle rule) { o.rule = gmp_rule_named(rule.cast<std::string>()); });
  Fields<LossQuestion> fields(name);
  fields.needs<&LossQuestion::x, &LossQuestion::loss, &LossQuestion::smoothing, &LossQuestion::n_threads>();
  return fields.with<&LossQuestion::labels>(labels).with<&LossQuestion::options>(options);
}

template <class AnyIndex>
py::dict loss_and_gradient(const AnyIndex& index, const LossQuestion& q) {
  const ApproximateLosses losses = released([&] {
    return approximate_losses(index, dense_view(q.x), q.labels, q.options, label_loss(q.loss, q.smoothing),
                              q.n_threads);
  });
  return py::dict("losses"_a = array_of(losses.losses), "indptr"_a = array_of(losses.indptr),
                  "ids"_a = array_of(losses.ids), "values"_a = array_of(losses.values),
                  "n_found"_a = array_of(losses.n_found), "n_exact"_a = array_of(losses.n_exact),
                  "n_scanned"_a = array_of(losses.n_scanned), "n_multiplications"_a = array_of(losses.n_multiplied),
                  "certified"_a = array_of(losses.certified).attr("astype")("bool"));
}

template <class AnyIndex>
void update(AnyIndex& index, std::span<const Index> ids, const Matrix<const float>& rows, int n_threads, Isa isa) {
  if (static_cast<std::size_t>(rows.rows) != ids.size() || rows.width() != index.n_features()) {
    throw std::invalid_argument("the rows do not fit the ids or the index");
  }
  released([&] {
    // Ids of new rows go on from those of all others.
    const auto is_new = [n = static_cast<Index>(index.n_rows())](Index id) { return id >= n; };
    check_distinct(ids, index.n_rows() + static_cast<std::size_t>(std::ranges::count_if(ids, is_new)));
    index.update(ids, rows_view(rows), n_threads, isa);
  });
}

template <class AnyIndex>
void remove(AnyIndex& index, std::span<const Index> ids) {
  released([&] {
    check_distinct(ids, index.n_rows());
    index.remove(ids);
  });
}

template <class AnyIndex>
auto by_rank(const AnyIndex& index, const Matrix<const float>& x, Index k, std::span<const Offset> excluded_indptr,
             std::span<const Index> excluded_ids, int n_threads) {
  if (k < 1) throw std::invalid_argument("k is out of range");
  return array_of(released([&] {
    return rows_by_rank(index, dense_view(x), static_cast<std::size_t>(k), {excluded_indptr, excluded_ids}, n_threads,
                        best_isa());
  }));
}

// What both indexes have.
template <class AnyIndex>
Class<AnyIndex> bind_index(Module& m, const std::string& name) {
  Class<AnyIndex> bound(m, name.c_str());
  bound.def("update", update<AnyIndex>, "ids"_a, "rows"_a, py::kw_only(), "n_threads"_a, "isa"_a = "auto")
      .def("remove", remove<AnyIndex>, "ids"_a)
      .def("n_rows", &AnyIndex::n_rows)
      .def("rows_by_rank", by_rank<AnyIndex>, "x"_a, py::kw_only(), "k"_a, "excluded_indptr"_a, "excluded_ids"_a,
           "n_threads"_a)
      .def("rows", [](const AnyIndex& index) { return rows_of(index); })
      .def("stored", stored<AnyIndex>);
  bind_method(m, bound, loss_fields((name + ".loss_and_gradient").c_str()), loss_and_gradient<AnyIndex>);
  return bound;
}

std::unique_ptr<ByteRows> byte_rows(const Matrix<const float>& rows, Index n_coded, bool has_intercept, int n_threads,
                                    Isa isa) {
  if (rows.rows < 1 || n_coded < 1 || n_coded > rows.cols - (has_intercept ? 1 : 0)) {
    throw std::invalid_argument("the columns to be coded do not fit the rows");
  }
  return released([&] {
    return std::make_unique<ByteRows>(rows_view(rows), static_cast<std::size_t>(rows.rows),
                                      static_cast<std::size_t>(n_coded), has_intercept, n_threads, isa);
  });
}

// Ids, scores, normalisers less the best scores, and their standard deviations, both empty where they are not wanted;
// None where a query has no code.
py::object best_by_bytes(const ByteRows& rows, const Matrix<const float>& queries, Index k, bool normalizers,
                         bool twice, int n_threads, Isa isa) {
  if (queries.width() != rows.n_features()) throw std::invalid_argument("the queries do not fit the rows");
  if (k < 1 || static_cast<std::size_t>(k) > rows.n_rows()) throw std::invalid_argument("k is out of range");
  const auto width = static_cast<std::size_t>(k), n = normalizers ? static_cast<std::size_t>(queries.rows) : 0;
  Array<Index> ids({queries.rows, k});
  Array<float> scores({queries.rows, k});
  auto log_z = empty_array<double>(n), std = empty_array<double>(n);
  const bool coded = released([&] {
    std::vector<Normalizer> normalizers_of_rows(n);
    if (!rows.best(dense_view(queries), width, twice, n_threads, isa, mutable_view(ids), mutable_view(scores),
                   normalizers_of_rows)) {
      return false;
    }
    std::ranges::transform(normalizers_of_rows, mutable_view(log_z).begin(), &Normalizer::log_z);
    std::ranges::transform(normalizers_of_rows, mutable_view(std).begin(), &Normalizer::std);
    return true;
  });
  if (!coded) return py::none();
  return py::make_tuple(ids, scores, log_z, std);
}

}  // namespace

void bind_search(Module& m) {
  const auto isa = "isa"_a = "auto";
  Class<ByteRows>(m, "ByteRows")
      .def(constructor(&byte_rows), "rows"_a, py::kw_only(), "n_coded"_a, "has_intercept"_a, "n_threads"_a, isa,
           KeepAll())
      .def("best", best_by_bytes, "queries"_a, "k"_a, py::kw_only(), "normalizers"_a, "twice"_a, "n_threads"_a, isa);
  m.def("centred_class_rows", class_rows, "weights"_a.noconvert(), "scale"_a, "intercept"_a);
  Fields<SearchedClasses> searched("predicted_microseconds");
  searched.needs<&SearchedClasses::n_classes, &SearchedClasses::n_columns, &SearchedClasses::values,
                 &SearchedClasses::sparse, &SearchedClasses::n_clusters, &SearchedClasses::share,
                 &SearchedClasses::n_exact>();
  bind_function(m, searched, predicted_microseconds);
  const auto x = "x"_a, n_probe = "n_probe"_a, n_threads = "n_threads"_a, excluded_indptr = "excluded_indptr"_a,
             excluded_ids = "excluded_ids"_a;
  m.def(
      "norm_of_longest",
      [](const Matrix<const float>& rows) {
        return released([&] { return norm_of_longest(rows_view(rows), static_cast<std::size_t>(rows.rows)); });
      },
      "rows"_a);
  m.def("spherical_kmeans", kmeans, "rows"_a, py::kw_only(), "n_clusters"_a, "n_iter"_a, "sample_per_cluster"_a,
        "radius"_a, "seed"_a, n_threads, isa);
  bind_index<ClusterIndex>(m, "ClusterIndex")
      .def(constructor(&whole), "rows"_a, "centroids"_a, py::kw_only(), "radius"_a, "labels"_a, n_threads,
           "code_bits"_a = 8, "row_bits"_a = 32, isa)
      .def_static("of_codes", &of_codes, "codes"_a, "centroids"_a, py::kw_only(), "radius"_a, "labels"_a, n_threads,
                  "code_bits"_a, "row_bits"_a, isa)
      .def("n_bytes", &ClusterIndex::n_bytes)
      .def("query", query, x, py::kw_only(), "k"_a, n_probe, excluded_indptr, excluded_ids, n_threads, isa)
      .def("query_above", query_above, x, py::kw_only(), "thresholds"_a, n_probe, excluded_indptr, excluded_ids,
           n_threads, isa)
      .def("log_normalizers", normalizers, x, py::kw_only(), "scores"_a, "ids"_a, "sample_size"_a, "seed"_a, "first"_a,
           n_threads, isa)
      .def("best_classes", classes_of, x, py::kw_only(), "k"_a, "n_head"_a, "n_tail"_a, n_probe, "seed"_a, "first"_a,
           n_threads)
      .def(
          "fill_heads",
          [](const ClusterIndex& index, const Matrix<const float>& points, std::span<const Index> labels,
             std::size_t probes, std::span<Index> heads, int threads) {
            released([&] { search_heads(index, dense_view(points), labels, probes, threads, best_isa(), heads); });
          },
          x, "labels"_a, n_probe, "heads"_a, n_threads)
      .def("labels", [](const ClusterIndex& index) { return array_of(labels_of(index)); })
      .def("imbalance", [](const ClusterIndex& index) { return imbalance_of(index); });
  bind_index<DecomposedIndex>(m, "DecomposedIndex")
      .def(constructor(&blocks), "rows"_a, "centroids"_a, py::kw_only(), "labels"_a, n_threads, isa)
      .def("query", query_blocks, x, py::kw_only(), "k"_a, "budget"_a = 0, n_probe, excluded_indptr, excluded_ids,
           n_threads, isa)
      .def("labels", [](const DecomposedIndex& index) { return matrix_of<Index>(labels_of(index), index.n_rows()); });
}

}  // namespace manyclass
