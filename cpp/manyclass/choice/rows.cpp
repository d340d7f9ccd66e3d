// See rows.hpp.
#include "manyclass/choice/rows.hpp"

#include <algorithm>
#include <stdexcept>

namespace manyclass {

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

}  // namespace

void check(const ChoiceRows& rows) {
  const auto n = static_cast<std::size_t>(rows.n_rows);
  const std::size_t n_listed = rows.alternatives.size(), k = rows.n_alternatives();
  require(k > 0, "there is no alternative");
  require(rows.tastes.size() == n * rows.n_features &&
              rows.features.size() == (rows.own_tastes ? 0 : k * rows.n_features) &&
              (!rows.own_tastes || rows.n_features == k),
          "tastes and features of alternatives do not fit each other");
  require(rows.indptr.size() == (rows.indptr.empty() ? 0 : n + 1), "indptr does not have a value for each row");
  require(!rows.listed_only || !rows.indptr.empty(), "rows that list their alternatives need lists");
  require(!rows.indptr.empty() || n_listed == 0, "alternatives are listed without indptr");
  if (!rows.indptr.empty()) {
    require(rows.indptr.front() == 0 && rows.indptr.back() == static_cast<Offset>(n_listed) &&
                std::ranges::is_sorted(rows.indptr),
            "indptr does not fit the lists");
  }
  require(rows.pair_features.size() == n_listed * rows.n_pair_features(), "features of pairs do not fit the lists");
  require(rows.offsets.empty() || rows.offsets.size() == n_listed, "offsets do not fit the lists");
  require(rows.log_weights.empty() || (rows.listed_only && rows.log_weights.size() == n_listed),
          "weights of drawn alternatives do not fit the lists");
  const auto in_range = [k](Index id) { return id >= 0 && static_cast<std::size_t>(id) < k; };
  require(std::ranges::all_of(rows.alternatives, in_range), "an alternative is out of range");
}

std::vector<double> by_feature(const ChoiceRows& rows) {
  const std::size_t k = rows.n_alternatives(), q = rows.n_features;
  std::vector<double> transposed(rows.own_tastes ? 0 : k * q);
  if (rows.own_tastes) return transposed;
  for (std::size_t a = 0; a < k; ++a) {
    for (std::size_t j = 0; j < q; ++j) transposed[j * k + a] = rows.features[a * q + j];
  }
  return transposed;
}

}  // namespace manyclass
