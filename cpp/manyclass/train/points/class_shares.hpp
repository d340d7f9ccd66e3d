// Shares of the classes that give the members of a team about as much to do each.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/train/common/trainer.hpp"
#include "manyclass/weights/class_range.hpp"
#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

class ClassShares {
 public:
  ClassShares() = default;

  // A visit reads a line of each of its features for its label, one for each class of a list, and one for a run of 16
  // neighbours; or, class by class, a row for each.
  template <class Rows, class Select>
  ClassShares(const Problem<Rows>& problem, const Select& select) {
    constexpr bool class_by_class =
        std::is_same_v<Rows, ClassRows<typename Rows::Weight>> || std::is_same_v<typename Select::Classes, ClassList>;
    const double for_one = class_by_class ? 1 : 1.0 / line_floats;
    const auto n_classes = static_cast<std::size_t>(problem.n_classes);
    work_before_.assign((n_classes + line_floats - 1) / line_floats + 1, 0);
    const auto after = [&](std::size_t k) -> double& { return work_before_[k / line_floats + 1]; };
    for (const Index y : problem.labels) {
      if (y >= 0) after(static_cast<std::size_t>(y)) += 1 / static_cast<double>(problem.labels.size());
    }
    for (std::size_t k = 0; k < n_classes; ++k) after(k) += for_one * select.inclusion(static_cast<Index>(k));
    for (std::size_t l = 1; l < work_before_.size(); ++l) work_before_[l] += work_before_[l - 1];
  }

  // Whole cache lines of classes.
  ClassRange of(Member me) const {
    const Index begin = bound(me.rank(), me.size());
    return {begin, bound(me.rank() + 1, me.size()) - begin};
  }

 private:
  Index bound(int rank, int size) const {
    const auto line = rank == size ? work_before_.end() - 1
                                   : std::lower_bound(work_before_.begin(), work_before_.end() - 1,
                                                      work_before_.back() * rank / size);
    return static_cast<Index>(line - work_before_.begin()) * static_cast<Index>(line_floats);
  }

  std::vector<double> work_before_;  // of each line, and of all
};

}  // namespace manyclass
