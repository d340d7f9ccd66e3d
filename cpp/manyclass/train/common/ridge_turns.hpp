// The ridge of tables of which a visit moves few rows: embeddings, several labels, weights on pairs. Rows take turns.
//
// Behind each visit some neighbouring rows shrink, so that each has its turn once in a round of R visits. It shrinks by
// 1 / (1 + s alpha R), where s is the step size that the row now has: the proximal step of alpha/2 |w|^2 for the visits
// of a round, which is that of composite objectives (Duchi, Hazan & Singer, JMLR 2011, section 1.1). Over a round each
// row pays what the mean loss + alpha/2 |w|^2 asks, whichever rows are moved and however seldom. So nothing has to be
// known of how likely a row is touched, which a margin or a feature does not tell.
//
// Which rows have their turn follows from the number of the visit alone: not from threads, and a training that goes on
// needs no more than that number.
#pragma once

#include <algorithm>
#include <cstddef>

#include "manyclass/core/types.hpp"

namespace manyclass {

class RidgeTurns {
 public:
  RidgeTurns() = default;
  // The table has n_rows rows, and a visit moves about `moved` of them. In a round every row is shrunk once. A round
  // is a quarter of a pass, or longer, if there are more rows than the visits of that quarter move: shrinking all of
  // them would then cost more than the visits do.
  RidgeTurns(double alpha, std::size_t n_rows, double moved, std::size_t n_points) : n_rows_(n_rows), pass_(n_points) {
    const double least = static_cast<double>(n_rows) / std::max(moved, 1.0);
    round_ = std::max({n_points / rounds_a_pass, static_cast<std::size_t>(least), std::size_t{1}});
    due_ = alpha * static_cast<double>(round_);
  }

  bool any() const { return due_ > 0; }
  // What a row of step size 1 pays in its turn.
  double due() const { return due_; }

  // Calls f(first, last) for the rows whose turn comes with the visits [begin, begin + size) of a pass.
  template <class F>
  void for_each(int pass, Offset begin, std::size_t size, const F& f) const {
    std::size_t t = static_cast<std::size_t>(pass) * pass_ + static_cast<std::size_t>(begin);
    const std::size_t end = t + size;
    while (t < end) {
      const std::size_t at = t % round_, n = std::min(end - t, round_ - at);
      f(row_at(at), row_at(at + n));
      t += n;
    }
  }

 private:
  static constexpr std::size_t rounds_a_pass = 4;

  // Products of rows and visits fit: 10^10 of the one and 10^9 of the other.
  std::size_t row_at(std::size_t visit) const { return n_rows_ * visit / round_; }

  std::size_t n_rows_ = 0, pass_ = 1, round_ = 1;
  double due_ = 0;
};

}  // namespace manyclass
