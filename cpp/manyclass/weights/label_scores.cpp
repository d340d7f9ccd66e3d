// See label_scores.hpp.
#include "manyclass/weights/label_scores.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <variant>

#include "manyclass/core/interrupt.hpp"

namespace manyclass {

namespace {

// Calls f(j, x_ij) for the numbers of a row that are stored.
template <class F>
void each_number(const SparseRow& row, const F& f) {
  poll(row.indices.size());
  for (std::size_t s = 0; s < row.indices.size(); ++s) f(static_cast<std::size_t>(row.indices[s]), row.values[s]);
}
template <class F>
void each_number(const DenseRow& row, const F& f) {
  poll(row.size());
  for (std::size_t j = 0; j < row.size(); ++j) f(j, row[j]);
}

}  // namespace

void label_scores(const AnyData& x, std::span<const Index> labels, const ConstLinearWeights& weights,
                  std::span<double> out) {
  const auto n_points = static_cast<std::size_t>(n_rows(x)), n_features = static_cast<std::size_t>(n_cols(x));
  const std::size_t n_classes = weights.intercept.size();
  if (labels.size() != n_points || out.size() != n_points)
    throw std::invalid_argument("there must be one label a point");
  if (weights.matrix.size() != (weights.by_feature ? n_features : n_classes) * weights.stride ||
      weights.stride < (weights.by_feature ? n_classes : n_features)) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  const std::size_t of_feature = weights.by_feature ? weights.stride : 1;
  const std::size_t of_class = weights.by_feature ? 1 : weights.stride;
  for (std::size_t i = 0; i < n_points; ++i) {
    const auto k = static_cast<std::size_t>(labels[i]);
    if (labels[i] < 0 || k >= n_classes) {
      throw std::invalid_argument("label " + std::to_string(labels[i]) + " is outside [0, " +
                                  std::to_string(n_classes) + ")");
    }
    double sum = 0;
    const auto add = [&](std::size_t j, float value) {
      sum += static_cast<double>(value) * static_cast<double>(weights.matrix[j * of_feature + k * of_class]);
    };
    std::visit([&](const auto& data) { each_number(data.row(static_cast<Index>(i)), add); }, x);
    out[i] = sum + static_cast<double>(weights.intercept[k]);
  }
}

OwnedCsr some_columns(const CsrView& x, std::span<const Index> columns) {
  // Where more numbers are stored than there are columns, a table of all columns costs less than a search for each
  // number.
  const bool has_table = x.indices.size() > static_cast<std::size_t>(x.n_cols);
  std::vector<Index> table(has_table ? static_cast<std::size_t>(x.n_cols) : 0, -1);
  for (std::size_t c = 0; has_table && c < columns.size(); ++c) {
    if (columns[c] < 0 || columns[c] >= x.n_cols) throw std::invalid_argument("a column is out of range");
    table[static_cast<std::size_t>(columns[c])] = static_cast<Index>(c);
  }
  const auto place_of = [&](Index j) {
    if (has_table) return table[static_cast<std::size_t>(j)];
    const auto at = std::ranges::lower_bound(columns, j);
    return at == columns.end() || *at != j ? Index{-1} : static_cast<Index>(at - columns.begin());
  };
  OwnedCsr found;
  found.indptr.reserve(x.indptr.size());
  found.indptr.push_back(0);
  for (Index i = 0; i < x.n_rows(); ++i) {
    const SparseRow row = x.row(i);
    poll(row.indices.size());
    for (std::size_t s = 0; s < row.indices.size(); ++s) {
      const Index place = place_of(row.indices[s]);
      if (place < 0) continue;
      found.indices.push_back(place);
      found.data.push_back(row.values[s]);
    }
    found.indptr.push_back(static_cast<Offset>(found.indices.size()));
  }
  return found;
}

}  // namespace manyclass
