// Looks at the exact loss of a fixed sample of training points, which show a divergence that the running loss hides.
//
// The running loss is that of the selected classes, and with few of them the logarithm of a sampled sum lies below the
// loss itself (Jensen), most where a model is sure of wrong classes. So it may fall while training diverges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace manyclass {

// A training, and what shows that it diverges.
struct ProbedTraining {
  std::int64_t n_points = 0, n_classes = 0, n_passes = 0;
  std::int64_t n_drawn = 0;    // classes that make a step
  double at_zero = 0;          // the loss of W = 0
  bool minimised = false;      // whether the exact loss is what training makes smaller; then a rise of it is told
  bool has_integrals = false;  // whether a look at a class is an integral over the noise of its utility
};

class LossProbe {
 public:
  // Plans of fewer passes end while steps are large.
  static constexpr std::int64_t many_passes = 50;

  // The mean loss, and its standard error.
  using Look = std::pair<double, double>;

  // All looks but the last take at most a small share of the multiplications of the training itself or, where that is
  // more, score a number of pairs of a point and a class that takes a few hundredths of a second.
  static constexpr double share = 0.02, free_pairs = 1e6;
  static constexpr std::int64_t fewest = 16, most = 256;  // points

  explicit LossProbe(const ProbedTraining& training);

  // How many points to look at.
  std::int64_t n_points() const { return n_points_; }
  // Passes after which to look, beside the last one.
  const std::vector<std::int64_t>& passes() const { return passes_; }
  // The rise above the least mean, in nats, from which on it shows divergence.
  double least_rise() const { return least_rise_; }

  // Notes the losses of the points after a pass; 0: before the first. `weights` are those of the points, or none.
  // Returns whether the mean is no number, so that training is to stop. A high one is no reason: large steps may begin
  // above W = 0 and come down as they fall.
  bool look(std::int64_t pass, std::span<const double> losses, std::span<const double> weights);

  const std::map<std::int64_t, Look>& looks() const { return looks_; }
  void restore(std::map<std::int64_t, Look> looks) { looks_ = std::move(looks); }

  // The least finite mean and its pass; infinity and 0 where there is none.
  std::pair<double, std::int64_t> best() const;
  // The mean that was seen last; minus infinity where nothing looked.
  double last() const;

  // How the looks show divergence; nothing if they do not.
  std::optional<std::string> verdict() const;

 private:
  bool minimised_;
  double at_zero_, left_ = 0, least_rise_;
  std::int64_t n_points_;
  std::vector<std::int64_t> passes_;
  std::map<std::int64_t, Look> looks_;
  std::vector<double> best_losses_;
  std::optional<double> rise_error_;
};

// The mean of values, of points with weights or without, and its standard error, which then is that of a ratio of two
// means.
std::pair<double, double> mean_and_error(std::span<const double> values, std::span<const double> weights);

}  // namespace manyclass
