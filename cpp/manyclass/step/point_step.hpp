// A step whose type is known only at run time.
//
// One virtual call a point, none per class. In return solvers, selections and storages are compiled side by side (a
// sum) and not for each other (a product): 10 s and 0.6 MB where all combinations of the first four solvers took 86 s
// and 5 MB.
#pragma once

#include <memory>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/objective/sampled_point.hpp"

namespace manyclass {

class PointStep {
 public:
  virtual ~PointStep() = default;

  // Writes p, moves u; `scratch` has twice the size of p.
  virtual Move solve(Isa isa, const SampledPoint& point, double& u, std::span<float> p,
                     std::span<float> scratch) const = 0;

  // Whether scores are to be given as the ridge's shrinkage will leave them (an implicit step solves for both).
  virtual bool shrinks_first() const = 0;
};

template <class Step>
class PointStepOf final : public PointStep {
 public:
  explicit PointStepOf(Step step) : step_(step) {}

  Move solve(Isa isa, const SampledPoint& point, double& u, std::span<float> p,
             std::span<float> scratch) const override {
    Move move{};
    run_with(isa, [&] { move = step_(point, u, p, scratch); });
    return move;
  }

  bool shrinks_first() const override { return Step::shrinks_first; }

 private:
  Step step_;
};

template <class Step>
std::unique_ptr<const PointStep> point_step(Step step) {
  return std::make_unique<PointStepOf<Step>>(step);
}

}  // namespace manyclass
