// Visits to dense points.
#include "manyclass/train/points/points.hpp"
#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

template std::unique_ptr<Trainer> points_trainer(const Problem<ClassRows<float>>&, SelectionOf<ClassRange>,
                                                 std::unique_ptr<const PointStep>, const Settings&);
template std::unique_ptr<Trainer> points_trainer(const Problem<ClassRows<float>>&, SelectionOf<ClassLines>,
                                                 std::unique_ptr<const PointStep>, const Settings&);
template std::unique_ptr<Trainer> points_trainer(const Problem<ClassRows<float>>&, SelectionOf<ClassList>,
                                                 std::unique_ptr<const PointStep>, const Settings&);

}  // namespace manyclass
