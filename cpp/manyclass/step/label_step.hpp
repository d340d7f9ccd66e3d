// A step of a point with any number of labels, whose type is known only at run time: what PointStep is for one label.
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string>

#include "manyclass/core/simd.hpp"
#include "manyclass/objective/point.hpp"

namespace manyclass {

// A step of labels is a small value with
//
//   double operator()(const SampledPoint& point, std::span<const float> labels, double& local, LabelGradient& g) const
//
// `labels` are the labels' scores, the point's label_score is their mean, and S are wrong classes. It writes to g what,
// times point.eta, is to be taken from scores per unit of |phi|^2, moves the number that the point carries, and returns
// the value of its objective.
template <class T>
concept StepOfLabels =
    requires(const T step, const SampledPoint& point, std::span<const float> labels, double& local, LabelGradient& g) {
      { step(point, labels, local, g) } -> std::same_as<double>;
    };

class LabelStep {
 public:
  virtual ~LabelStep() = default;
  virtual double solve(Isa isa, const SampledPoint& point, std::span<const float> labels, double& local,
                       LabelGradient& g) const = 0;
};

template <StepOfLabels Kind>
class LabelStepOf final : public LabelStep {
 public:
  explicit LabelStepOf(Kind step) : step_(step) {}

  double solve(Isa isa, const SampledPoint& point, std::span<const float> labels, double& local,
               LabelGradient& g) const override {
    double value = 0;
    run_with(isa, [&] { value = step_(point, labels, local, g); });
    return value;
  }

 private:
  Kind step_;
};

}  // namespace manyclass
