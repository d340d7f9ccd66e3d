// Search: spherical k-means and the index that it makes.
#include <algorithm>
#include <limits>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "manyclass/search/cluster_index.hpp"
#include "manyclass/search/heads.hpp"
#include "manyclass/search/log_normalizer.hpp"
#include "manyclass/search/spherical_kmeans.hpp"

namespace manyclass {

namespace {

using namespace py::literals;

template <class T>
Array<T> array_of(std::span<const T> values, std::vector<py::ssize_t> shape) {
  Array<T> out(std::move(shape));
  std::ranges::copy(values, out.mutable_data());
  return out;
}

RowsView rows_view(const DenseView& x) {
  if (x.n_cols < 1) throw std::invalid_argument("the matrix has no columns");
  return {x.data.data(), static_cast<std::size_t>(x.n_cols)};
}

// A matrix as the caller gave it, kept alive while the core reads it.
class QueryArrays {
 public:
  QueryArrays(const py::object& x, std::size_t n_features) {
    if (py::isinstance<py::tuple>(x)) {
      const auto parts = x.cast<py::tuple>();
      indptr_ = parts[0].cast<Array<Offset>>();
      indices_ = parts[1].cast<Array<Index>>();
      data_ = parts[2].cast<Array<float>>();
      view_ = csr_view(indptr_, indices_, data_, static_cast<py::ssize_t>(n_features));
    } else {
      data_ = x.cast<Array<float>>();
      const DenseView dense = dense_view(data_);
      if (static_cast<std::size_t>(dense.n_cols) != n_features) {
        throw std::invalid_argument("the queries do not have the columns of the rows");
      }
      view_ = dense;
    }
  }
  const Queries& view() const { return view_; }
  py::ssize_t size() const {
    return std::visit([](const auto& x) { return static_cast<py::ssize_t>(x.n_rows()); }, view_);
  }

 private:
  Array<Offset> indptr_;
  Array<Index> indices_;
  Array<float> data_;
  Queries view_;
};

Excluded excluded_view(const Array<Offset>& indptr, const Array<Index>& ids, py::ssize_t n) {
  const Excluded excluded{view(indptr), view(ids)};
  if (indptr.size() == 0) return excluded;
  if (indptr.size() != n + 1 || excluded.indptr.front() != 0 || excluded.indptr.back() != ids.size() ||
      !std::ranges::is_sorted(excluded.indptr)) {
    throw std::invalid_argument("the exclusions do not describe one list for each query");
  }
  return excluded;
}

std::size_t probes_in(py::ssize_t n_probe, const ClusterIndex& index) {
  if (n_probe < 1 || static_cast<std::size_t>(n_probe) > index.n_clusters()) {
    throw std::invalid_argument("n_probe is out of range");
  }
  return static_cast<std::size_t>(n_probe);
}

py::tuple top_k_rows(const ClusterIndex& index, const py::object& x, py::ssize_t k, py::ssize_t n_probe,
                     const Array<Offset>& excluded_indptr, const Array<Index>& excluded_ids, int n_threads,
                     const std::string& isa) {
  if (k < 1 || static_cast<std::size_t>(k) > index.n_rows()) throw std::invalid_argument("k is out of range");
  const QueryArrays queries(x, index.n_features());
  Request request;
  request.k = static_cast<std::size_t>(k);
  request.n_probe = probes_in(n_probe, index);
  request.excluded = excluded_view(excluded_indptr, excluded_ids, queries.size());
  request.n_threads = n_threads;
  request.isa = isa_named(isa);
  Array<float> scores({queries.size(), k});
  Array<Offset> ids({queries.size(), k});
  const std::span<float> out_scores = mutable_view(scores);
  const std::span<Offset> out_ids = mutable_view(ids);
  {
    const py::gil_scoped_release nogil;
    index.search(queries.view(), request, [&](std::size_t i, std::span<const Scored> rows) {
      float* score = out_scores.data() + i * request.k;
      Offset* id = out_ids.data() + i * request.k;
      for (std::size_t j = 0; j < request.k; ++j) {
        score[j] = j < rows.size() ? rows[j].score : -std::numeric_limits<float>::infinity();
        id[j] = j < rows.size() ? rows[j].id : -1;
      }
    });
  }
  return py::make_tuple(scores, ids);
}

// (indptr, ids, scores) of the rows above each query's threshold, best first.
py::tuple rows_above(const ClusterIndex& index, const py::object& x, const Array<float>& thresholds,
                     py::ssize_t n_probe, const Array<Offset>& excluded_indptr, const Array<Index>& excluded_ids,
                     int n_threads, const std::string& isa) {
  const QueryArrays queries(x, index.n_features());
  if (thresholds.size() != queries.size()) throw std::invalid_argument("each query needs a threshold");
  Request request;
  request.thresholds = view(thresholds);
  request.n_probe = probes_in(n_probe, index);
  request.excluded = excluded_view(excluded_indptr, excluded_ids, queries.size());
  request.n_threads = n_threads;
  request.isa = isa_named(isa);
  std::vector<std::vector<Scored>> found(static_cast<std::size_t>(queries.size()));
  {
    const py::gil_scoped_release nogil;
    index.search(queries.view(), request,
                 [&](std::size_t i, std::span<const Scored> rows) { found[i].assign(rows.begin(), rows.end()); });
  }
  Array<Offset> indptr(queries.size() + 1);
  const std::span<Offset> out_indptr = mutable_view(indptr);
  out_indptr[0] = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    out_indptr[i + 1] = out_indptr[i] + static_cast<Offset>(found[i].size());
  }
  Array<Offset> ids(out_indptr.back());
  Array<float> scores(out_indptr.back());
  Offset* id = ids.mutable_data();
  float* score = scores.mutable_data();
  for (const auto& rows : found) {
    for (const Scored& row : rows) {
      *id++ = row.id;
      *score++ = row.score;
    }
  }
  return py::make_tuple(indptr, ids, scores);
}

// (log Z, its standard deviation) of each query, from what top_k_rows has found and a sample of the other rows.
py::tuple normalizers(const ClusterIndex& index, const py::object& x, const Array<float>& scores,
                      const Array<Offset>& ids, py::ssize_t sample_size, std::uint64_t seed, py::ssize_t first,
                      int n_threads, const std::string& isa) {
  const QueryArrays queries(x, index.n_features());
  const auto n_rows = static_cast<py::ssize_t>(index.n_rows());
  if (ids.ndim() != 2 || ids.shape(0) != queries.size() || scores.size() != ids.size()) {
    throw std::invalid_argument("each query needs ids and as many scores");
  }
  for (const Offset id : view(ids)) {
    if (id < -1 || id >= n_rows) throw std::invalid_argument("an id is out of range");
  }
  const py::ssize_t width = ids.shape(1);
  if (sample_size > n_rows || (sample_size < n_rows && sample_size < width + 2)) {
    throw std::invalid_argument("a sample has " + std::to_string(sample_size) + " rows; it must have all " +
                                std::to_string(n_rows) + ", or fewer and at least " + std::to_string(width + 2));
  }
  if (first < 0 || static_cast<std::size_t>(first) % queries_per_sample != 0) {
    throw std::invalid_argument("the first query's number is not a multiple of " + std::to_string(queries_per_sample));
  }
  const Found found{view(ids), view(scores), static_cast<std::size_t>(width)};
  const TailSample sample{static_cast<std::size_t>(sample_size), seed, static_cast<std::uint64_t>(first)};
  Array<double> values(queries.size()), errors(queries.size());
  const std::span<double> out = mutable_view(values), out_errors = mutable_view(errors);
  {
    const py::gil_scoped_release nogil;
    log_normalizers(index, queries.view(), found, sample, n_threads, isa_named(isa), out, out_errors);
  }
  return py::make_tuple(values, errors);
}

py::dict kmeans(const Array<float>& rows, py::ssize_t n_clusters, int n_iter, py::ssize_t sample_per_cluster,
                float radius, std::uint64_t seed, int n_threads, const std::string& isa) {
  const DenseView x = dense_view(rows);
  const RowsView w = rows_view(x);
  if (n_clusters < 1 || n_clusters > x.rows || sample_per_cluster < 0 || !(radius >= 0)) {
    throw std::invalid_argument("the options of k-means are out of range");
  }
  const KMeansOptions options{static_cast<std::size_t>(n_clusters),
                              n_iter,
                              static_cast<std::size_t>(sample_per_cluster),
                              seed,
                              n_threads,
                              isa_named(isa)};
  const Directions directions(w.n_features, radius);
  KMeansResult result;
  {
    const py::gil_scoped_release nogil;
    result = spherical_kmeans(w, static_cast<std::size_t>(x.rows), directions, options);
  }
  py::list mean_cosine;
  py::list moved;
  py::list repaired;
  py::list sizes;
  for (const KMeansIteration& iteration : result.iterations) {
    mean_cosine.append(iteration.mean_cosine);
    moved.append(iteration.moved);
    repaired.append(iteration.repaired);
    sizes.append(array_of(std::span<const Index>(iteration.sizes), {n_clusters}));
  }
  const auto width = static_cast<py::ssize_t>(directions.n_features());
  return py::dict("centroids"_a = array_of(std::span<const float>(result.centroids), {n_clusters, width}),
                  "n_sampled"_a = result.n_sampled, "mean_cosine"_a = mean_cosine, "moved"_a = moved,
                  "repaired"_a = repaired, "sizes"_a = sizes);
}

}  // namespace

void bind_search(py::module_& m) {
  m.def("spherical_kmeans", kmeans, "rows"_a.noconvert(), py::kw_only(), "n_clusters"_a, "n_iter"_a,
        "sample_per_cluster"_a, "radius"_a, "seed"_a, "n_threads"_a, "isa"_a = "auto");

  py::class_<ClusterIndex>(m, "ClusterIndex")
      .def(py::init([](const Array<float>& rows, const Array<float>& centroids, float radius,
                       const Array<Index>& labels, int n_threads, const std::string& isa) {
             const RowsView w = rows_view(dense_view(rows));
             const DenseView c = dense_view(centroids);
             const Directions directions(w.n_features, radius);
             if (static_cast<std::size_t>(c.n_cols) != directions.n_features() || c.rows < 1) {
               throw std::invalid_argument("the centroids do not fit the rows");
             }
             for (const Index label : view(labels)) {
               if (label < 0 || label >= c.rows) throw std::invalid_argument("a label is out of range");
             }
             if (labels.size() != 0 && labels.size() != rows.shape(0)) {
               throw std::invalid_argument("each row needs a label");
             }
             const std::span<const float> all = view(rows);
             const py::gil_scoped_release nogil;
             return ClusterIndex({all.begin(), all.end()}, directions, {c.data.begin(), c.data.end()}, view(labels),
                                 n_threads, isa_named(isa));
           }),
           "rows"_a.noconvert(), "centroids"_a.noconvert(), py::kw_only(), "radius"_a, "labels"_a.noconvert(),
           "n_threads"_a, "isa"_a = "auto")
      .def("query", top_k_rows, "x"_a, py::kw_only(), "k"_a, "n_probe"_a, "excluded_indptr"_a.noconvert(),
           "excluded_ids"_a.noconvert(), "n_threads"_a, "isa"_a = "auto")
      .def("query_above", rows_above, "x"_a, py::kw_only(), "thresholds"_a.noconvert(), "n_probe"_a,
           "excluded_indptr"_a.noconvert(), "excluded_ids"_a.noconvert(), "n_threads"_a, "isa"_a = "auto")
      .def("log_normalizers", normalizers, "x"_a, py::kw_only(), "scores"_a.noconvert(), "ids"_a.noconvert(),
           "sample_size"_a, "seed"_a, "first"_a, "n_threads"_a, "isa"_a = "auto")
      .def(
          "update",
          [](ClusterIndex& index, const Array<Index>& ids, const Array<float>& rows, int n_threads,
             const std::string& isa) {
            const DenseView x = dense_view(rows);
            if (x.rows != ids.size() || static_cast<std::size_t>(x.n_cols) != index.n_features()) {
              throw std::invalid_argument("the rows do not fit the ids or the index");
            }
            std::vector<Index> sorted(view(ids).begin(), view(ids).end());
            std::ranges::sort(sorted);
            if (!sorted.empty() && (sorted.front() < 0 || static_cast<std::size_t>(sorted.back()) >= index.n_rows() ||
                                    std::ranges::adjacent_find(sorted) != sorted.end())) {
              throw std::invalid_argument("the ids are not distinct or out of range");
            }
            const py::gil_scoped_release nogil;
            index.update(view(ids), rows_view(x), n_threads, isa_named(isa));
          },
          "ids"_a.noconvert(), "rows"_a.noconvert(), py::kw_only(), "n_threads"_a, "isa"_a = "auto")
      .def(
          "fill_heads",
          [](const ClusterIndex& index, const Array<float>& x, const Array<Index>& labels, py::ssize_t n_probe,
             Array<Index> heads, int n_threads) {
            const DenseView points = dense_view(x);
            const std::span<Index> out = mutable_view(heads);
            const std::size_t probes = probes_in(n_probe, index);
            const py::gil_scoped_release nogil;
            search_heads(index, points, view(labels), probes, n_threads, best_isa(), out);
          },
          "x"_a.noconvert(), "labels"_a.noconvert(), "n_probe"_a, "heads"_a.noconvert(), "n_threads"_a)
      .def("rows",
           [](const ClusterIndex& index) {
             const std::size_t n = index.n_rows() * index.n_features();
             return array_of(std::span<const float>(index.rows().data, n),
                             {static_cast<py::ssize_t>(index.n_rows()), static_cast<py::ssize_t>(index.n_features())});
           })
      .def("labels",
           [](const ClusterIndex& index) {
             Array<Index> labels(static_cast<py::ssize_t>(index.n_rows()));
             for (std::size_t id = 0; id < index.n_rows(); ++id) labels.mutable_data()[id] = index.label(id);
             return labels;
           })
      .def("sizes", [](const ClusterIndex& index) {
        Array<Index> sizes(static_cast<py::ssize_t>(index.n_clusters()));
        for (std::size_t c = 0; c < index.n_clusters(); ++c) {
          sizes.mutable_data()[c] = static_cast<Index>(index.size_of(c));
        }
        return sizes;
      });
}

}  // namespace manyclass
