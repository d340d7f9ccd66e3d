// A step whose type is known only at run time.
//
// One virtual call a point, none per class. In return solvers, selections and storages are compiled side by side (a
// sum) and not for each other (a product): 10 s and 0.6 MB where all combinations of the first four solvers took 86 s
// and 5 MB.
#pragma once

#include <concepts>
#include <memory>
#include <span>

#include "manyclass/core/simd.hpp"
#include "manyclass/objective/point.hpp"

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

// A step is a small value with
//
//   Move operator()(const SampledPoint& point, double& u, std::span<float> p, std::span<float> scratch) const
//   static constexpr bool shrinks_first   as PointStep::shrinks_first
//
// which writes p_k of the selected classes, moves u and returns the label's move. `scratch` has twice the size of p and
// holds nothing of worth before or after; the point is read only. No finite point and no positive step size overflows.
template <class T>
concept Step = requires(const T step, const SampledPoint& point, double& u, std::span<float> p) {
  { step(point, u, p, p) } -> std::same_as<Move>;
  { T::shrinks_first } -> std::convertible_to<bool>;
};

template <Step Kind>
class PointStepOf final : public PointStep {
 public:
  explicit PointStepOf(const Kind& step) : step_(step) {}

  Move solve(Isa isa, const SampledPoint& point, double& u, std::span<float> p,
             std::span<float> scratch) const override {
    Move move{};
    run_with(isa, [&] { move = step_(point, u, p, scratch); });
    return move;
  }

  bool shrinks_first() const override { return Kind::shrinks_first; }

 private:
  Kind step_;
};

template <Step Kind>
std::unique_ptr<const PointStep> point_step(const Kind& step) {
  return std::make_unique<PointStepOf<Kind>>(step);
}

}  // namespace manyclass
