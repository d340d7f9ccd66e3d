// Rows by column: see the header.
#include "manyclass/search/float_block.hpp"

namespace manyclass {

void FloatBlock::reserve(std::size_t n_rows) {
  lines_.reserve((n_rows + group_rows - 1) / group_rows * n_features_);
  ids_.reserve(n_rows);
}

void FloatBlock::append(Index id, DenseRow w, Isa isa) {
  const std::size_t slot = ids_.size();
  ids_.push_back(id);
  if (slot % group_rows == 0) lines_.resize(lines_.size() + n_features_);
  replace(slot, w, isa);
}

void FloatBlock::replace(std::size_t slot, DenseRow w, Isa) {
  Line* group = lines_.data() + slot / group_rows * n_features_;
  for (std::size_t j = 0; j < n_features_; ++j) group[j].of_row[slot % group_rows] = w[j];
}

Index FloatBlock::remove(std::size_t slot) {
  const std::size_t last = ids_.size() - 1;
  if (slot != last) {
    Line* to = lines_.data() + slot / group_rows * n_features_;
    const Line* from = lines_.data() + last / group_rows * n_features_;
    for (std::size_t j = 0; j < n_features_; ++j) {
      to[j].of_row[slot % group_rows] = from[j].of_row[last % group_rows];
    }
    ids_[slot] = ids_[last];
  }
  ids_.pop_back();
  if (last % group_rows == 0) lines_.resize(lines_.size() - n_features_);
  return slot == last ? -1 : ids_[slot];
}

}  // namespace manyclass
