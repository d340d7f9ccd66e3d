// Reading of ARFF in the sparse form, of data that are zeros and ones.
//
// Lines "@attribute ..." name the columns, and behind a line "@data" a row is "{column value, ...}", values perhaps in
// quotes. Lines that begin with '%' are comments, and the words that begin with '@' may have any case.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

struct ArffRows {
  Offset n_attributes = 0;
  std::vector<Offset> indptr;
  std::vector<Index> columns;  // of values other than 0, in the order of the text
};

// Throws std::invalid_argument that begins with `name` for a row that is not in this form.
ArffRows read_sparse_arff(std::string_view text, const std::string& name);

}  // namespace manyclass
