// See approximate_losses.hpp.
#include "manyclass/search/approximate_losses.hpp"

#include <algorithm>
#include <concepts>
#include <stdexcept>

#include "manyclass/core/parallel.hpp"
#include "manyclass/search/message_passing.hpp"
#include "manyclass/search/results.hpp"
#include "manyclass/search/whole_rows.hpp"

namespace manyclass {

namespace {

// The first or the second of two names.
bool is_first(const char* what, const std::string& name, const char* first, const char* second) {
  if (name == first) return true;
  if (name == second) return false;
  throw std::invalid_argument(std::string(what) + " is '" + name + "'; it must be one of '" + first + "', '" + second +
                              "'");
}

template <class Source>
ApproximateLosses each_point(const Source& index, const DenseView& x, const Excluded& labels, const GmpOptions& options,
                             const LabelLoss& loss, int n_threads) {
  const auto n = static_cast<std::size_t>(x.n_rows());
  const auto shares = static_cast<std::size_t>(4 * std::max(n_threads, 1));
  const std::size_t tile = std::max<std::size_t>((n + shares - 1) / shares, 1);  // points that share a memory
  std::vector<std::vector<Index>> ids(n);
  std::vector<std::vector<float>> values(n);
  ApproximateLosses out;
  out.losses.resize(n);
  out.indptr = {0};
  for (auto* counts : {&out.n_found, &out.n_exact, &out.n_scanned, &out.n_multiplied}) counts->resize(n);
  out.certified.assign(n, 1);
  out.rest.resize(n);
  parallel_for(n_threads, (n + tile - 1) / tile, [&](std::size_t t) {
    GmpMemory memory;
    for (std::size_t i = t * tile; i < std::min(n, (t + 1) * tile); ++i) {
      if (labels.of(i).empty()) continue;
      poll();
      out.losses[i] = approximate_gradient(index, x.row(static_cast<Index>(i)), labels.of(i), options, loss, memory,
                                           ids[i], values[i]);
      out.n_found[i] = static_cast<Offset>(memory.n_found);
      out.n_exact[i] = static_cast<Offset>(memory.n_exact);
      out.n_scanned[i] = static_cast<Offset>(memory.find.n_scanned);
      out.n_multiplied[i] = static_cast<Offset>(memory.find.n_multiplied) + out.n_exact[i] * x.n_cols;
      out.certified[i] = memory.certified ? 1 : 0;
      out.rest[i] = memory.rest;
    }
  });
  for (std::size_t i = 0; i < n; ++i) {
    out.ids.insert(out.ids.end(), ids[i].begin(), ids[i].end());
    out.values.insert(out.values.end(), values[i].begin(), values[i].end());
    out.indptr.push_back(static_cast<Offset>(out.ids.size()));
  }
  return out;
}

}  // namespace

GmpStep gmp_step_named(const std::string& name) {
  return is_first("step", name, "full", "frank_wolfe") ? GmpStep::full : GmpStep::frank_wolfe;
}

Rest rest_named(const std::string& name) { return is_first("rest", name, "mask", "zero") ? Rest::masked : Rest::zero; }

GmpAnswer gmp_answer_named(const std::string& name) {
  return is_first("answer", name, "blocks", "active") ? GmpAnswer::blocks : GmpAnswer::active;
}

GmpRule gmp_rule_named(const std::string& name) {
  return is_first("rule", name, "exact_scores", "printed") ? GmpRule::exact_scores : GmpRule::printed;
}

template <class AnyIndex>
ApproximateLosses approximate_losses(const AnyIndex& index, const DenseView& queries, const Excluded& labels,
                                     const GmpOptions& options, const LabelLoss& loss, int n_threads) {
  check_columns(queries, index.n_features());
  check(labels, static_cast<std::size_t>(queries.rows), index.n_rows(), "labels");
  check(options.find, index.n_rows(), index.n_clusters());
  if constexpr (std::same_as<AnyIndex, ClusterIndex>) {
    return each_point(WholeRows(index), queries, labels, options, loss, n_threads);
  } else {
    return each_point(index, queries, labels, options, loss, n_threads);
  }
}

template ApproximateLosses approximate_losses(const ClusterIndex&, const DenseView&, const Excluded&, const GmpOptions&,
                                              const LabelLoss&, int);
template ApproximateLosses approximate_losses(const DecomposedIndex&, const DenseView&, const Excluded&,
                                              const GmpOptions&, const LabelLoss&, int);

}  // namespace manyclass
