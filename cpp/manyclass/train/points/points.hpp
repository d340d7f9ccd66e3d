// Visits to points with one label: select classes, score, solve the step, move a few rows of W.
//
// The policy of the loop for linear models, alone or together. A thread of a team scores and moves the rows of its own
// part of the classes, so that no row of W goes from one processor's cache to another's.
#pragma once

#include <memory>

#include "manyclass/select/any_select.hpp"
#include "manyclass/step/point_step.hpp"
#include "manyclass/train/common/trainer.hpp"

namespace manyclass {

template <class Rows, class Classes>
std::unique_ptr<Trainer> points_trainer(const Problem<Rows>& problem, SelectionOf<Classes> select,
                                        std::unique_ptr<const PointStep> step, const Settings& settings);

}  // namespace manyclass
