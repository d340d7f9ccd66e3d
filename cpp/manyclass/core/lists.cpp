// See lists.hpp.
#include "manyclass/core/lists.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace manyclass {

namespace {

bool ascend_below(std::span<const Index> ids, std::size_t n_ids) {
  if (ids.empty()) return true;
  return ids.front() >= 0 && static_cast<std::size_t>(ids.back()) < n_ids &&
         std::ranges::adjacent_find(ids, std::ranges::greater_equal{}) == ids.end();
}

}  // namespace

void check(const Excluded& lists, std::size_t n_rows, std::size_t n_ids, const char* what) {
  if (lists.indptr.size() != n_rows + 1 || lists.indptr.front() != 0 ||
      lists.indptr.back() != static_cast<Offset>(lists.ids.size()) || !std::ranges::is_sorted(lists.indptr)) {
    throw std::invalid_argument(std::string("the ") + what + " do not describe one list for each row");
  }
  for (std::size_t i = 0; i < n_rows; ++i) {
    if (ascend_below(lists.of(i), n_ids)) continue;
    throw std::invalid_argument(std::string("the ") + what + " of row " + std::to_string(i) +
                                " are not distinct, sorted and in range");
  }
}

void check_distinct(std::span<const Index> ids, std::size_t n_ids) {
  std::vector<Index> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  if (!ascend_below(sorted, n_ids)) throw std::invalid_argument("the ids are not distinct and in range");
}

}  // namespace manyclass
