// A sample of classes: one for each point, or one that the points of a batch have in common.
#include <algorithm>
#include <cmath>
#include <utility>

#include "manyclass/train/common_scores.hpp"

namespace manyclass {

namespace {

class Sampled final : public ClassSource {
 public:
  Sampled(const SourceSettings& settings, std::size_t n, bool log_q, bool share,
          std::shared_ptr<const AliasTable> noise)
      : settings_(settings),
        n_(n),
        log_q_(log_q),
        share_(share),
        noise_(std::move(noise)),
        work_(static_cast<std::size_t>(settings.n_threads)) {
    for (Work& work : work_) work.places.assign(settings.classes.size(), absent);
  }

  void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) override {
    Work& work = work_[static_cast<std::size_t>(me.rank())];
    if (share_) {
      if (!points.empty()) gradients_in_common(points, eta, work, out);
      return;
    }
    for (std::size_t b = 0; b < points.size(); ++b) {
      ListedScores& listed = work.listed;
      draw(points[b], points[b].labels, work);
      listed.wrong = work.drawn;
      run_with(settings_.isa, [&] {
        score_labels(settings_.classes, points[b], listed);
        score_wrong(settings_.classes, points[b], listed);
      });
      lower(listed.negatives, work, 0, points[b].labels.size());
      listed_gradient(settings_, points[b], eta, listed, out[b]);
    }
  }

  std::span<const Index> common(Member me) const override {
    return share_ ? std::span<const Index>(work_[static_cast<std::size_t>(me.rank())].drawn) : std::span<const Index>{};
  }

 private:
  static constexpr std::uint32_t absent = 0xffffffff;

  struct Work {
    std::vector<Index> drawn;   // distinct
    std::vector<float> excess;  // of each: log of the share of it in the draws that is expected; with noise
    std::vector<std::uint32_t> times;
    std::vector<std::uint32_t> places;  // K: where a class is in `drawn`
    std::vector<std::size_t> of_labels;
    ListedScores listed;
    CommonScores scores;
  };

  void gradients_in_common(std::span<const LabelPoint> points, double eta, Work& work,
                           std::span<ClassGradient> out) const {
    draw(points[0], {}, work);
    const std::size_t n = work.drawn.size();
    for (std::size_t c = 0; c < n; ++c)
      work.places[static_cast<std::size_t>(work.drawn[c])] = static_cast<std::uint32_t>(c);
    for (std::size_t b = 0; b < points.size(); b += scored_points) {
      const std::size_t size = std::min(scored_points, points.size() - b);
      run_with(settings_.isa, [&] { work.scores.score(settings_.classes, work.drawn, points.subspan(b, size)); });
      for (std::size_t p = 0; p < size; ++p) {
        const LabelPoint& point = points[b + p];
        work.of_labels.clear();
        std::size_t met = 0;
        for (const Index y : point.labels) {
          const std::uint32_t place = work.places[static_cast<std::size_t>(y)];
          work.of_labels.push_back(place == absent ? n : place);
          met += place != absent;
        }
        const std::span<float> z = work.scores.of(p);
        // A label's own score is not lowered.
        keep(z, work, [&] { lower(z, work, met, point.labels.size()); });
        work.scores.gradient(settings_, point, eta, z, work.of_labels, out[b + p]);
      }
    }
    for (const Index k : work.drawn) work.places[static_cast<std::size_t>(k)] = absent;
  }

  // Runs f and gives the labels' scores back their values.
  template <class F>
  static void keep(std::span<float> z, Work& work, const F& f) {
    auto& kept = work.listed.positives;
    kept.clear();
    for (const std::size_t place : work.of_labels) kept.push_back(place < z.size() ? z[place] : 0.0F);
    f();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (work.of_labels[i] < z.size()) z[work.of_labels[i]] = kept[i];
    }
  }

  // Raises the scores of the drawn classes, `met` of which are among the point's labels, by -log of their share.
  void lower(std::span<float> z, const Work& work, std::size_t met, std::size_t n_labels) const {
    if (!log_q_) return;
    if (noise_) {
      for (std::size_t c = 0; c < z.size(); ++c) z[c] -= work.excess[c];
      return;
    }
    const auto drawn = static_cast<double>(z.size() - met);
    const auto share = static_cast<float>(std::log(drawn / static_cast<double>(settings_.classes.size() - n_labels)));
    for (float& score : z) score -= share;
  }

  void draw(const LabelPoint& point, std::span<const Index> left_out, Work& work) const {
    for (const Index y : left_out) work.places[static_cast<std::size_t>(y)] = 0;
    work.drawn.clear();
    if (noise_) {
      draw_from_noise(point.rng, work);
    } else {
      draw_uniformly(point.rng, left_out.size(), work);
    }
    for (const Index k : work.drawn) work.places[static_cast<std::size_t>(k)] = absent;
    for (const Index y : left_out) work.places[static_cast<std::size_t>(y)] = absent;
  }

  // n distinct classes, or all where there are no more: by rejection while that is quick, else from a shuffled list.
  void draw_uniformly(Rng rng, std::size_t n_left_out, Work& work) const {
    const std::size_t n_classes = settings_.classes.size(), n_there = n_classes - n_left_out;
    const std::size_t n = std::min(n_, n_there);
    if (2 * n <= n_there) {
      while (work.drawn.size() < n) {
        const auto k = static_cast<Index>(rng.below(static_cast<std::uint32_t>(n_classes)));
        if (work.places[static_cast<std::size_t>(k)] != absent) continue;
        work.places[static_cast<std::size_t>(k)] = 0;
        work.drawn.push_back(k);
      }
      return;
    }
    for (std::size_t k = 0; k < n_classes; ++k) {
      if (work.places[k] == absent) work.drawn.push_back(static_cast<Index>(k));
    }
    if (n < work.drawn.size()) shuffle(work.drawn, rng);
    work.drawn.resize(n);
  }

  // A class drawn c times of n counts once, its e^z with weight c / (n q_k).
  void draw_from_noise(Rng rng, Work& work) const {
    work.times.clear();
    const std::size_t first = 1;  // places from 1 on: 0 is that of a class left out
    for (std::size_t j = 0; j < n_; ++j) {
      const Index k = noise_->draw(rng);
      std::uint32_t& place = work.places[static_cast<std::size_t>(k)];
      if (place == 0) continue;
      if (place == absent) {
        place = static_cast<std::uint32_t>(work.drawn.size() + first);
        work.drawn.push_back(k);
        work.times.push_back(0);
      }
      ++work.times[place - first];
    }
    work.excess.clear();
    for (std::size_t c = 0; c < work.drawn.size(); ++c) {
      const double expected = static_cast<double>(n_) * noise_->probability(work.drawn[c]);
      work.excess.push_back(static_cast<float>(std::log(expected / static_cast<double>(work.times[c]))));
    }
  }

  SourceSettings settings_;
  std::size_t n_;
  bool log_q_;
  bool share_;
  std::shared_ptr<const AliasTable> noise_;
  std::vector<Work> work_;
};

}  // namespace

std::unique_ptr<ClassSource> sampled_source(const SourceSettings& settings, std::size_t n, bool log_q, bool share,
                                            std::shared_ptr<const AliasTable> noise) {
  return std::make_unique<Sampled>(settings, n, log_q, share, std::move(noise));
}

}  // namespace manyclass
