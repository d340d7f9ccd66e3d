// The trainer of visits to points with one label (points.hpp): of sparse rows in sparse_points.cpp, of dense ones in
// dense_points.cpp, so that neither takes long to compile.
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
