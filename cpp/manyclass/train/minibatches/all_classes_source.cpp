// All classes.
#include <algorithm>
#include <numeric>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/train/minibatches/common_scores.hpp"

namespace manyclass {

namespace {

// A gradient is kept as a list where at most a share of it is not zero: a margin's, not the softmax's.
constexpr std::size_t list_share = 8;

class EveryClass final : public ClassSource {
 public:
  explicit EveryClass(const SourceSettings& settings)
      : settings_(settings),
        work_(static_cast<std::size_t>(settings.n_threads)),
        all_(settings.classes.size()),
        alpha_(settings.step == nullptr ? 0 : all_.size(), 1.0F) {
    std::iota(all_.begin(), all_.end(), 0);
  }

  void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) override {
    Work& work = work_[static_cast<std::size_t>(me.rank())];
    for (std::size_t b = 0; b < points.size(); b += scored_points) {
      const std::size_t n = std::min(scored_points, points.size() - b);
      poll(n * settings_.classes.size() * settings_.classes.work(points[b]));
      run_with(settings_.isa, [&](Isa isa) { work.scores.score(settings_.classes, all_, points.subspan(b, n), isa); });
      for (std::size_t p = 0; p < n; ++p) {
        work.places.assign(points[b + p].labels.begin(), points[b + p].labels.end());
        work.scores.gradient(settings_, points[b + p], eta, work.scores.of(p), work.places, alpha_, out[b + p]);
        make_list(out[b + p]);
      }
    }
  }

  std::span<const Index> common(Member) const override { return all_; }
  std::size_t n_seen() const override { return all_.size(); }

 private:
  struct Work {
    CommonScores scores;
    std::vector<std::size_t> places;
  };

  // Most lines of 16 are zeros. What is not kept of the others is written over.
  void make_list(ClassGradient& out) const {
    run_with(settings_.isa, [&] {
      const std::span<const float> all(out.common);
      std::size_t n_moved = 0;
      for (const float g : all) n_moved += g != 0 ? 1 : 0;
      if (n_moved * list_share > all.size()) return;
      std::size_t n = out.ids.size();
      out.ids.resize(n + n_moved + 1);
      out.g.resize(n + n_moved + 1);
      for (std::size_t first = 0; first < all.size(); first += line_floats) {
        const std::span<const float> line = all.subspan(first, std::min(line_floats, all.size() - first));
        if (largest_of(line) == 0) continue;
        for (std::size_t c = 0; c < line.size(); ++c) {
          out.ids[n] = static_cast<Index>(first + c);
          out.g[n] = line[c];
          n += line[c] != 0 ? 1 : 0;
        }
      }
      out.ids.resize(n);
      out.g.resize(n);
      out.common.clear();
    });
  }

  SourceSettings settings_;
  std::vector<Work> work_;
  std::vector<Index> all_;    // 0, 1, ...
  std::vector<float> alpha_;  // of each, where steps are those of the double sum
};

}  // namespace

std::unique_ptr<ClassSource> all_classes_source(const SourceSettings& settings) {
  return std::make_unique<EveryClass>(settings);
}

}  // namespace manyclass
