// Questions to a table of word vectors: cosines with a vector, and the nearest words.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/weights/coded_rows.hpp"

namespace manyclass {

struct WordTable {
  AnyCodes codes;  // a row for each word; with scales, one for each row
  std::size_t width = 0;
};

// Throws std::invalid_argument unless the table has whole rows, and no scales or one for each.
std::size_t checked_rows(const WordTable& table);

// The Euclidean norm of each row in single precision, at most the largest float; 1 where a row is zero.
std::vector<float> row_norms(const WordTable& table, Isa isa);

// The cosine of each row with a vector of `width` numbers; 0 where one of the two is zero.
std::vector<float> cosines(const WordTable& table, std::span<const double> vector, Isa isa);

// The k words of largest cosine that are not left out, or all where there are fewer; ties in the order of rows.
std::vector<Offset> nearest_words(std::span<const float> cosines, std::size_t k, std::span<const Offset> left_out);

}  // namespace manyclass
