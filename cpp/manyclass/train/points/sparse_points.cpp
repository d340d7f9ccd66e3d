// Visits to sparse points.
#include "manyclass/train/points/points.hpp"
#include "manyclass/weights/feature_rows.hpp"

namespace manyclass {

template std::unique_ptr<Trainer> points_trainer(const Problem<FeatureRows<float>>&, SelectionOf<ClassRange>,
                                                 std::unique_ptr<const PointStep>, const Settings&);
template std::unique_ptr<Trainer> points_trainer(const Problem<FeatureRows<float>>&, SelectionOf<ClassLines>,
                                                 std::unique_ptr<const PointStep>, const Settings&);
template std::unique_ptr<Trainer> points_trainer(const Problem<FeatureRows<float>>&, SelectionOf<ClassList>,
                                                 std::unique_ptr<const PointStep>, const Settings&);

}  // namespace manyclass
