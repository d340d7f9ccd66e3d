// See heads.hpp.
#include "manyclass/search/heads.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace manyclass {

void search_heads(const ClusterIndex& index, const DenseView& x, std::span<const Index> labels, std::size_t n_probe,
                  int n_threads, Isa isa, std::span<Index> heads) {
  constexpr std::size_t block = 4096;  // points that are copied to have their ones
  const auto width = static_cast<std::size_t>(x.n_cols), n = static_cast<std::size_t>(x.rows);
  const std::size_t n_columns = index.n_features(), n_head = n == 0 ? 0 : heads.size() / n;
  if (labels.size() != n || n_head * n != heads.size() || n_head > index.n_rows() || n_columns < width ||
      n_columns > width + 1) {
    throw std::invalid_argument("the points, their labels and heads do not fit each other or the index");
  }
  std::vector<Offset> one_each(block + 1);
  std::iota(one_each.begin(), one_each.end(), 0);
  std::vector<float> queries;
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t size = std::min(block, n - first);
    queries.assign(size * n_columns, 1.0F);
    for (std::size_t i = 0; i < size; ++i) {
      std::ranges::copy(x.row(static_cast<Index>(first + i)),
                        queries.begin() + static_cast<std::ptrdiff_t>(i * n_columns));
    }
    Request request;
    request.k = n_head;
    request.n_probe = n_probe;
    request.excluded = {std::span<const Offset>(one_each).first(size + 1), labels.subspan(first, size)};
    request.n_threads = n_threads;
    request.isa = isa;
    index.search(DenseView{queries, static_cast<Index>(size), static_cast<Index>(n_columns)}, request,
                 [&](std::size_t i, std::span<const Scored> rows) {
                   const std::span<Index> head = heads.subspan((first + i) * n_head, n_head);
                   for (std::size_t c = 0; c < n_head; ++c) head[c] = c < rows.size() ? rows[c].id : -1;
                 });
  }
}

}  // namespace manyclass
