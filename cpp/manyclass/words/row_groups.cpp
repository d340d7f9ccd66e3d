// See row_groups.hpp.
#include "manyclass/words/row_groups.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "manyclass/core/lists.hpp"

namespace manyclass {

GroupedRows groups_of_clusters(const ClusteredRows& of, std::size_t most) {
  if (of.clusters.size() != of.rows.size() || of.width > of.stride || most == 0) {
    throw std::invalid_argument("the clusters are not those of the rows, or a group would have none");
  }
  check_distinct(of.rows, of.stride == 0 ? 0 : of.table.size() / of.stride);
  std::vector<std::size_t> order(of.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return of.clusters[a] < of.clusters[b]; });
  GroupedRows groups;
  for (std::size_t at = 0; at < order.size();) {
    const std::size_t begin = at;
    const Index cluster = of.clusters[order[begin]];
    const std::size_t first = groups.means.size();
    groups.starts.push_back(static_cast<Offset>(begin));
    groups.means.resize(first + of.width);
    float* const mean = groups.means.data() + first;
    for (; at < order.size() && at < begin + most && of.clusters[order[at]] == cluster; ++at) {
      const Index row = of.rows[order[at]];
      const float* const numbers = of.table.data() + static_cast<std::size_t>(row) * of.stride;
      groups.rows.push_back(row);
      for (std::size_t j = 0; j < of.width; ++j) mean[j] += numbers[j];
    }
    for (std::size_t j = 0; j < of.width; ++j) mean[j] /= static_cast<float>(at - begin);
  }
  groups.starts.push_back(static_cast<Offset>(order.size()));
  return groups;
}

GroupLists group_lists(std::span<const Index> found, std::size_t width, std::span<const Index> order) {
  const std::size_t n = order.size();
  if (width == 0 || found.size() % width != 0)
    throw std::invalid_argument("the words found are not rows of this width");
  check_distinct(order, n);
  // The first parts are longer by one where the words do not divide.
  const std::size_t n_parts = std::max(n / width, std::size_t{1}), size = n / n_parts, longer = n % n_parts;
  std::vector<bool> is_found(n);
  GroupLists lists;
  lists.starts.push_back(0);
  for (std::size_t g = 0; g < found.size() / width; ++g) {
    const auto first = static_cast<std::ptrdiff_t>(lists.list.size());
    for (const Index word : found.subspan(g * width, width)) {
      if (word < 0) continue;
      if (static_cast<std::size_t>(word) >= n) throw std::invalid_argument("a word is out of range");
      lists.list.push_back(word);
      is_found[static_cast<std::size_t>(word)] = true;
    }
    std::sort(lists.list.begin() + first, lists.list.end());
    const std::size_t n_found = lists.list.size() - static_cast<std::size_t>(first);
    const std::size_t part = g % n_parts, begin = part * size + std::min(part, longer);
    for (const Index word : order.subspan(begin, size + (part < longer ? 1 : 0))) {
      if (!is_found[static_cast<std::size_t>(word)]) lists.list.push_back(word);
    }
    const std::size_t n_drawn = lists.list.size() - static_cast<std::size_t>(first) - n_found;
    for (const Index word : found.subspan(g * width, width)) {
      if (word >= 0) is_found[static_cast<std::size_t>(word)] = false;
    }
    const auto rest = static_cast<double>(std::max(n - std::min(n, n_found), std::size_t{1}));
    const auto drawn = static_cast<double>(std::max(n_drawn, std::size_t{1}));
    lists.starts.push_back(static_cast<Offset>(lists.list.size()));
    lists.n_found.push_back(static_cast<Index>(n_found));
    lists.drawn_log_weights.push_back(static_cast<float>(std::log(rest / drawn)));
  }
  return lists;
}

}  // namespace manyclass
