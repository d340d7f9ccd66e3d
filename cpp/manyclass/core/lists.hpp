// Lists of ids, one for each of some rows: the labels of a point, the rows that a query does not want.
#pragma once

#include <cstddef>
#include <span>

#include "manyclass/core/types.hpp"

namespace manyclass {

// ids[indptr[i] .. indptr[i + 1]) sorted; no indptr: none for all.
struct Excluded {
  std::span<const Offset> indptr;
  std::span<const Index> ids;

  std::span<const Index> of(std::size_t i) const {
    if (indptr.empty()) return {};
    const auto begin = static_cast<std::size_t>(indptr[i]);
    return ids.subspan(begin, static_cast<std::size_t>(indptr[i + 1]) - begin);
  }
};

// Throws std::invalid_argument where there is not a list for each of n_rows rows, or the ids of one are not distinct,
// sorted and in [0, n_ids). `what` names them in the message.
void check(const Excluded& lists, std::size_t n_rows, std::size_t n_ids, const char* what);

// Throws where ids are not distinct and in [0, n_ids), in any order.
void check_distinct(std::span<const Index> ids, std::size_t n_ids);

}  // namespace manyclass
