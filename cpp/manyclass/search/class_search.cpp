// See class_search.hpp.
#include "manyclass/search/class_search.hpp"

#include <stdexcept>
#include <variant>

#include "manyclass/search/log_normalizer.hpp"
#include "manyclass/search/results.hpp"

namespace manyclass {

ClassesFound best_classes(const ClusterIndex& index, const Queries& queries, const ClassSearch& search) {
  const std::size_t n = static_cast<std::size_t>(n_rows(queries)), k = search.k, width = search.n_head;
  if (k < 1 || k > width) throw std::invalid_argument("the head has fewer classes than are wanted");
  Request request{width, {}, search.n_probe, {}, search.n_threads, search.isa};
  check(request, queries, index);
  std::vector<float> scores(n * width);
  std::vector<Offset> ids(n * width);
  search_into(index, queries, request, scores, ids);
  request.n_probe = index.n_clusters();
  for (std::size_t i = 0; i < n; ++i) {
    if (ids[i * width + k - 1] >= 0) continue;
    const Queries one = std::visit([i](const auto& x) -> Queries { return x.rows_from(i, 1); }, queries);
    search_into(index, one, request, std::span(scores).subspan(i * width, width),
                std::span(ids).subspan(i * width, width));
  }
  ClassesFound found{std::vector<Index>(n * k), std::vector<float>(n * k), std::vector<double>(n)};
  std::vector<double> log_z(n);  // less the best score
  log_normalizers(index, queries, {ids, scores, width}, {search.n_tail, search.seed, search.first}, search.n_threads,
                  search.isa, log_z, found.std);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const double below = static_cast<double>(scores[i * width + j]) - static_cast<double>(scores[i * width]);
      found.ids[i * k + j] = static_cast<Index>(ids[i * width + j]);
      found.log_p[i * k + j] = static_cast<float>(below - log_z[i]);
    }
  }
  return found;
}

}  // namespace manyclass
