// A sample of classes for each point.
#include <algorithm>
#include <cmath>
#include <utility>

#include "manyclass/train/listed_loss.hpp"

namespace manyclass {

namespace {

class Sampled final : public ClassSource {
 public:
  Sampled(const SourceSettings& settings, std::size_t n, bool log_q, std::shared_ptr<const AliasTable> noise)
      : settings_(settings),
        n_(n),
        log_q_(log_q),
        noise_(std::move(noise)),
        work_(static_cast<std::size_t>(settings.n_threads)) {
    for (Work& work : work_) work.seen.resize(settings.classes.size());
  }

  void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) override {
    Work& work = work_[static_cast<std::size_t>(me.rank())];
    ListedScores& listed = work.listed;
    for (std::size_t b = 0; b < points.size(); ++b) {
      if (noise_) {
        draw_from_noise(points[b], work);
      } else {
        draw_uniformly(points[b], work);
      }
      run_with(settings_.isa, [&] {
        score_labels(settings_.classes, points[b], listed);
        score_wrong(settings_.classes, points[b], listed);
      });
      if (log_q_) {
        for (std::size_t c = 0; c < listed.wrong.size(); ++c) listed.negatives[c] -= work.log_expected[c];
      }
      listed_gradient(settings_, points[b], eta, listed, out[b]);
    }
  }

 private:
  struct Work {
    ListedScores listed;
    // Log of the share of a class in the draws that is expected of it: what its e^z is divided by.
    std::vector<float> log_expected;
    std::vector<std::uint32_t> seen;  // K: the number of the last draw that a class was in
    std::uint32_t draw = 0;
    std::vector<Index> drawn;
  };

  // n distinct wrong classes, or all where there are no more: by rejection while that is quick, else from a shuffled
  // list.
  void draw_uniformly(const LabelPoint& point, Work& work) const {
    const std::size_t n_classes = settings_.classes.size(), n_wrong = n_classes - point.labels.size();
    std::vector<Index>& wrong = work.listed.wrong;
    begin(point, work);
    const std::size_t n = std::min(n_, n_wrong);
    work.log_expected.assign(n, static_cast<float>(std::log(static_cast<double>(n) / static_cast<double>(n_wrong))));
    Rng rng = point.rng;
    if (2 * n <= n_wrong) {
      while (wrong.size() < n) {
        const auto k = static_cast<Index>(rng.below(static_cast<std::uint32_t>(n_classes)));
        if (work.seen[static_cast<std::size_t>(k)] == work.draw) continue;
        work.seen[static_cast<std::size_t>(k)] = work.draw;
        wrong.push_back(k);
      }
      return;
    }
    for (std::size_t k = 0; k < n_classes; ++k) {
      if (work.seen[k] != work.draw) wrong.push_back(static_cast<Index>(k));
    }
    if (n < wrong.size()) shuffle(wrong, rng);
    wrong.resize(n);
  }

  // A class drawn c times of n counts once, its e^z with weight c / (n q_k).
  void draw_from_noise(const LabelPoint& point, Work& work) const {
    std::vector<Index>& wrong = work.listed.wrong;
    begin(point, work);
    work.drawn.clear();
    Rng rng = point.rng;
    for (std::size_t j = 0; j < n_; ++j) {
      const Index k = noise_->draw(rng);
      if (work.seen[static_cast<std::size_t>(k)] != work.draw) work.drawn.push_back(k);
    }
    std::ranges::sort(work.drawn);
    work.log_expected.clear();
    for (std::size_t j = 0; j < work.drawn.size();) {
      const Index k = work.drawn[j];
      std::size_t times = 0;
      for (; j < work.drawn.size() && work.drawn[j] == k; ++j) ++times;
      wrong.push_back(k);
      const double share = static_cast<double>(n_) * noise_->probability(k) / static_cast<double>(times);
      work.log_expected.push_back(static_cast<float>(std::log(share)));
    }
  }

  // Marks the labels as seen.
  static void begin(const LabelPoint& point, Work& work) {
    work.listed.wrong.clear();
    if (++work.draw == 0) {
      std::ranges::fill(work.seen, 0U);
      work.draw = 1;
    }
    for (const Index y : point.labels) work.seen[static_cast<std::size_t>(y)] = work.draw;
  }

  SourceSettings settings_;
  std::size_t n_;
  bool log_q_;
  std::shared_ptr<const AliasTable> noise_;
  std::vector<Work> work_;
};

}  // namespace

std::unique_ptr<ClassSource> sampled_source(const SourceSettings& settings, std::size_t n, bool log_q,
                                            std::shared_ptr<const AliasTable> noise) {
  return std::make_unique<Sampled>(settings, n, log_q, std::move(noise));
}

}  // namespace manyclass
