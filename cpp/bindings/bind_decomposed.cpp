// Decomposed search: the index of column blocks, and losses and gradients from what a search finds.
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <variant>

#include "bindings/arrays.hpp"
#include "bindings/isa.hpp"
#include "bindings/module.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/objective/label_loss.hpp"
#include "manyclass/search/message_passing.hpp"
#include "manyclass/search/whole_rows.hpp"

namespace manyclass {

namespace {

using namespace py::literals;

// Lists of ids, one for each of n rows, which index an index of n_rows rows.
Excluded lists_of(const Array<Offset>& indptr, const Array<Index>& ids, py::ssize_t n, std::size_t n_rows) {
  const Excluded lists{view(indptr), view(ids)};
  if (indptr.size() != n + 1 || lists.indptr.front() != 0 || lists.indptr.back() != ids.size() ||
      !std::ranges::is_sorted(lists.indptr)) {
    throw std::invalid_argument("the ids do not make one list for each query");
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const std::span<const Index> list = lists.of(i);
    if (list.empty()) continue;
    if (!std::ranges::is_sorted(list) || std::ranges::adjacent_find(list) != list.end() || list.front() < 0 ||
        static_cast<std::size_t>(list.back()) >= n_rows) {
      throw std::invalid_argument("the ids of a list are not sorted, distinct and in range");
    }
  }
  return lists;
}

DenseView queries_view(const Array<float>& x, std::size_t n_features) {
  const DenseView queries = dense_view(x);
  if (static_cast<std::size_t>(queries.n_cols) != n_features) {
    throw std::invalid_argument("the queries do not have the columns of the rows");
  }
  return queries;
}

FindOptions find_options(std::size_t budget, float threshold, std::size_t n_probe, std::size_t n_rows,
                         std::size_t n_clusters, const std::string& isa) {
  if (budget > n_rows || !(threshold >= 0) || n_probe < 1 || n_probe > n_clusters) {
    throw std::invalid_argument("the options of the search are out of range");
  }
  return {budget, threshold, n_probe, isa_named(isa)};
}

// Losses and gradients of some points, and what was done for each.
struct Answers {
  std::vector<double> losses;
  std::vector<std::vector<Index>> ids;
  std::vector<std::vector<float>> values;
  std::vector<Index> n_found;
  std::vector<Index> n_exact;
  std::vector<char> enough;

  explicit Answers(std::size_t n) : losses(n), ids(n), values(n), n_found(n), n_exact(n), enough(n, 1) {}
};

template <class Source>
Answers answers(const Source& index, const DenseView& x, const Excluded& labels, const GmpOptions& options,
                const LabelLoss& any_loss, int n_threads) {
  const auto n = static_cast<std::size_t>(x.n_rows());
  const auto shares = static_cast<std::size_t>(4 * std::max(n_threads, 1));
  const std::size_t tile = std::max<std::size_t>((n + shares - 1) / shares, 1);  // points that share a memory
  Answers out(n);
  std::visit(
      [&](const auto& loss) {
        parallel_for(n_threads, (n + tile - 1) / tile, [&](std::size_t t) {
          GmpMemory memory;
          for (std::size_t i = t * tile; i < std::min(n, (t + 1) * tile); ++i) {
            if (labels.of(i).empty()) continue;
            out.losses[i] = approximate_gradient(index, x.row(static_cast<Index>(i)), labels.of(i), options, loss,
                                                 memory, out.ids[i], out.values[i]);
            out.n_found[i] = static_cast<Index>(memory.n_found);
            out.n_exact[i] = static_cast<Index>(memory.n_exact);
            out.enough[i] = memory.enough ? 1 : 0;
          }
        });
      },
      any_loss);
  return out;
}

template <class T, class U>
Array<T> array_of(const std::vector<U>& values) {
  Array<T> out(static_cast<py::ssize_t>(values.size()));
  std::ranges::transform(values, out.mutable_data(), [](U x) { return static_cast<T>(x); });
  return out;
}

py::dict dict_of(const Answers& found) {
  Array<Offset> indptr(static_cast<py::ssize_t>(found.losses.size()) + 1);
  const std::span<Offset> ends = mutable_view(indptr);
  ends[0] = 0;
  for (std::size_t i = 0; i < found.ids.size(); ++i) ends[i + 1] = ends[i] + static_cast<Offset>(found.ids[i].size());
  Array<Index> ids(ends.back());
  Array<float> values(ends.back());
  for (std::size_t i = 0; i < found.ids.size(); ++i) {
    std::ranges::copy(found.ids[i], ids.mutable_data() + ends[i]);
    std::ranges::copy(found.values[i], values.mutable_data() + ends[i]);
  }
  return py::dict("losses"_a = array_of<double>(found.losses), "indptr"_a = indptr, "ids"_a = ids, "values"_a = values,
                  "n_found"_a = array_of<Index>(found.n_found), "n_exact"_a = array_of<Index>(found.n_exact),
                  "enough"_a = array_of<bool>(found.enough));
}

template <class I>
py::dict loss_and_gradient(const I& index, const Array<float>& x, const Array<Offset>& labels_indptr,
                           const Array<Index>& labels, const std::string& loss, double smoothing, std::size_t budget,
                           float threshold, std::size_t n_probe, bool until_enough, int n_iter, const std::string& step,
                           float tolerance, const std::string& rest, const std::string& answer, int n_threads,
                           const std::string& isa) {
  const DenseView queries = queries_view(x, index.n_features());
  const Excluded positives = lists_of(labels_indptr, labels, queries.n_rows(), index.n_rows());
  GmpOptions options;
  options.find = find_options(budget, threshold, n_probe, index.n_rows(), index.n_clusters(), isa);
  options.until_enough = until_enough;
  options.n_iter = n_iter;
  options.step = step == "full" ? GmpStep::full : GmpStep::frank_wolfe;
  options.tolerance = tolerance;
  options.rest = rest == "mask" ? Rest::masked : Rest::zero;
  options.answer = answer == "blocks" ? GmpAnswer::blocks : GmpAnswer::active;
  const LabelLoss by_name = label_loss(loss, smoothing);
  const Answers found = [&] {
    const py::gil_scoped_release nogil;
    if constexpr (std::same_as<I, ClusterIndex>) {
      return answers(WholeRows(index), queries, positives, options, by_name, n_threads);
    } else {
      return answers(index, queries, positives, options, by_name, n_threads);
    }
  }();
  return dict_of(found);
}

template <class Class>
void def_loss_and_gradient(Class& bound) {
  bound.def("loss_and_gradient", loss_and_gradient<typename Class::type>, "x"_a.noconvert(),
            "labels_indptr"_a.noconvert(), "labels"_a.noconvert(), py::kw_only(), "loss"_a, "smoothing"_a, "budget"_a,
            "threshold"_a, "n_probe"_a, "until_enough"_a, "n_iter"_a, "step"_a, "tolerance"_a, "rest"_a, "answer"_a,
            "n_threads"_a, "isa"_a = "auto");
}

py::tuple top_k_rows(const DecomposedIndex& index, const Array<float>& x, py::ssize_t k, std::size_t budget,
                     std::size_t n_probe, const Array<Offset>& excluded_indptr, const Array<Index>& excluded_ids,
                     int n_threads, const std::string& isa) {
  if (k < 1 || static_cast<std::size_t>(k) > index.n_rows()) throw std::invalid_argument("k is out of range");
  const DenseView queries = queries_view(x, index.n_features());
  const FindOptions options = find_options(budget, 0, n_probe, index.n_rows(), index.n_clusters(), isa);
  Excluded excluded;
  if (excluded_indptr.size() > 0) excluded = lists_of(excluded_indptr, excluded_ids, queries.rows, index.n_rows());
  Array<float> scores({static_cast<py::ssize_t>(queries.rows), k});
  Array<Offset> ids({static_cast<py::ssize_t>(queries.rows), k});
  std::ranges::fill(mutable_view(scores), -std::numeric_limits<float>::infinity());
  std::ranges::fill(mutable_view(ids), -1);
  float* const out_scores = scores.mutable_data();
  Offset* const out_ids = ids.mutable_data();
  {
    const py::gil_scoped_release nogil;
    index.search(queries, static_cast<std::size_t>(k), options, excluded, n_threads,
                 [&](std::size_t i, std::span<const Scored> rows) {
                   std::ranges::transform(rows, out_scores + i * static_cast<std::size_t>(k), &Scored::score);
                   std::ranges::transform(rows, out_ids + i * static_cast<std::size_t>(k), &Scored::id);
                 });
  }
  return py::make_tuple(scores, ids);
}

DecomposedIndex made(const Array<float>& rows, const std::vector<Array<float>>& centroids,
                     const std::vector<Array<Index>>& labels, int n_threads, const std::string& isa) {
  const DenseView x = dense_view(rows);
  const std::size_t n_blocks = centroids.size();
  const auto width = static_cast<std::size_t>(x.n_cols);
  if (n_blocks < 1 || n_blocks > width || x.rows < 1 || (!labels.empty() && labels.size() != n_blocks)) {
    throw std::invalid_argument("there are not as many blocks as centroids, or more than columns");
  }
  std::vector<std::vector<float>> units;
  std::vector<std::vector<Index>> clusters;
  for (std::size_t j = 0; j < n_blocks; ++j) {
    const DenseView c = dense_view(centroids[j]);
    if (static_cast<std::size_t>(c.n_cols) != width * (j + 1) / n_blocks - width * j / n_blocks || c.rows < 1 ||
        c.rows != dense_view(centroids[0]).rows) {
      throw std::invalid_argument("the centroids of a block do not fit its columns");
    }
    units.emplace_back(c.data.begin(), c.data.end());
    if (labels.empty()) continue;
    const std::span<const Index> given = view(labels[j]);
    if (given.size() != static_cast<std::size_t>(x.rows) || std::ranges::min(given) < 0 ||
        std::ranges::max(given) >= c.rows) {
      throw std::invalid_argument("a label is missing or out of range");
    }
    clusters.emplace_back(given.begin(), given.end());
  }
  std::vector<float> own(x.data.begin(), x.data.end());
  const py::gil_scoped_release nogil;
  return {std::move(own), width, std::move(units), clusters, n_threads, isa_named(isa)};
}

}  // namespace

void bind_decomposed(py::module_& m) {
  py::class_<ClusterIndex> whole(m.attr("ClusterIndex"));
  def_loss_and_gradient(whole);

  py::class_<DecomposedIndex> blocks(m, "DecomposedIndex");
  blocks
      .def(py::init(&made), "rows"_a.noconvert(), "centroids"_a.noconvert(), py::kw_only(), "labels"_a.noconvert(),
           "n_threads"_a, "isa"_a = "auto")
      .def("query", top_k_rows, "x"_a.noconvert(), py::kw_only(), "k"_a, "budget"_a, "n_probe"_a,
           "excluded_indptr"_a.noconvert(), "excluded_ids"_a.noconvert(), "n_threads"_a, "isa"_a = "auto")
      .def(
          "update",
          [](DecomposedIndex& index, const Array<Index>& ids, const Array<float>& rows, int n_threads,
             const std::string& isa) {
            const DenseView x = queries_view(rows, index.n_features());
            std::vector<Index> sorted(view(ids).begin(), view(ids).end());
            std::ranges::sort(sorted);
            if (x.rows != ids.size() ||
                (!sorted.empty() && (sorted.front() < 0 || static_cast<std::size_t>(sorted.back()) >= index.n_rows() ||
                                     std::ranges::adjacent_find(sorted) != sorted.end()))) {
              throw std::invalid_argument("the ids are not distinct, out of range, or not as many as rows");
            }
            const py::gil_scoped_release nogil;
            index.update(view(ids), {x.data.data(), index.n_features()}, n_threads, isa_named(isa));
          },
          "ids"_a.noconvert(), "rows"_a.noconvert(), py::kw_only(), "n_threads"_a, "isa"_a = "auto")
      .def("rows",
           [](const DecomposedIndex& index) {
             const auto n = static_cast<py::ssize_t>(index.n_rows());
             Array<float> rows({n, static_cast<py::ssize_t>(index.n_features())});
             std::copy_n(index.rows().data, rows.size(), rows.mutable_data());
             return rows;
           })
      .def("labels", [](const DecomposedIndex& index) {
        Array<Index> labels({index.n_blocks(), index.n_rows()});
        Index* out = labels.mutable_data();
        for (std::size_t j = 0; j < index.n_blocks(); ++j) {
          for (std::size_t id = 0; id < index.n_rows(); ++id) *out++ = index.label(j, id);
        }
        return labels;
      });
  def_loss_and_gradient(blocks);
}

}  // namespace manyclass
