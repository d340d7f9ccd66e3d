// What rows of a choice list: the alternatives that each may choose from, or those of which there is more to say.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// The list of a row has increasing alternatives, each with r features of the pair and an offset.
struct ChoiceLists {
  std::vector<Offset> indptr;  // n + 1
  std::vector<Index> alternatives;
  std::vector<double> features;     // of those listed, r each
  std::size_t n_features = 0;       // r
  std::vector<double> offsets;      // of those listed
  bool only = false;                // whether what a row does not list cannot be chosen
  std::vector<double> log_weights;  // of drawn ones: log of how many each stands for; else empty

  std::size_t n_rows() const { return indptr.size() - 1; }
  std::size_t begin(std::size_t i) const { return static_cast<std::size_t>(indptr[i]); }
  std::size_t end(std::size_t i) const { return static_cast<std::size_t>(indptr[i + 1]); }
};

// A number for each pair of a row and an alternative, in one of three forms: by rows with 0 where a row has no entry
// (indptr is not empty), an n x K table, or as `listed`, in the order of lists that are given beside.
struct PairValues {
  std::string name;
  bool listed = false;
  std::span<const Offset> indptr;
  std::span<const Index> alternatives;  // of entries, in any order; numbers of one pair are summed
  std::span<const double> values;

  bool by_rows() const { return !indptr.empty(); }
};

struct ListedPairs {
  std::size_t n_rows = 0, n_alternatives = 0;
  bool only = false;                    // whether the lists below are given; else rows list what the values have
  std::span<const Offset> indptr;       // lists in any order
  std::span<const Index> alternatives;  // of them
  std::vector<PairValues> features;
  std::optional<PairValues> offset, unavailable;  // where the latter is not 0, a pair cannot be chosen
};

// Throws std::invalid_argument where lists or values do not fit n rows of K alternatives, a row that must choose has an
// empty list, one lists an alternative twice, or a number is not finite.
ChoiceLists choice_lists(const ListedPairs& pairs);

// Lists of the alternatives from a first one to before a last one, two numbers a row: where they begin, and themselves.
std::pair<std::vector<Offset>, std::vector<Index>> lists_of_ranges(std::span<const Offset> ranges);

// The lists of rows in any order. Throws std::invalid_argument where there is no such row.
ChoiceLists lists_of_rows(const ChoiceLists& lists, std::span<const Offset> rows);

// Lists of all K alternatives with zeros for those that were not listed; lists of all that may be chosen stay.
ChoiceLists filled_lists(const ChoiceLists& lists, std::size_t n_alternatives);

// The row of each entry.
std::vector<Offset> rows_of_entries(const ChoiceLists& lists);

// The number of each group where it is the same at all places of the group, 0 for a group without places; else empty.
std::optional<std::vector<double>> numbers_of_groups(std::span<const double> numbers, std::span<const Offset> groups,
                                                     std::size_t n_groups);

}  // namespace manyclass
