// A sample of classes: one for each point, or one that the points of a batch have in common.
#include <algorithm>
#include <cmath>
#include <utility>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/train/minibatches/common_scores.hpp"

namespace manyclass {

namespace {

// Adds log alpha to the scores of drawn classes, so that the sum of their e^z estimates that over all wrong classes
// (Jean et al. 2015, Botev et al. 2017). The logarithm of that estimate is biased; steps of the double sum take the
// weights as they are instead. Nowhere else do weights enter a loss of labels.
void weigh(std::span<float> z, std::span<const float> log_alpha) {
  for (std::size_t c = 0; c < z.size(); ++c) z[c] += log_alpha[c];
}

class Sampled final : public ClassSource {
 public:
  Sampled(const SourceSettings& settings, AnySelect select, bool log_alpha, bool share)
      : settings_(settings),
        select_(std::move(select)),
        log_alpha_(log_alpha && settings.step == nullptr),
        share_(share),
        work_(static_cast<std::size_t>(settings.n_threads)) {
    const std::size_t capacity = std::visit([](const auto& draws) { return draws.capacity(); }, select_);
    for (Work& work : work_) {
      work.list.resize(capacity);
      work.alpha.resize(capacity);
      work.times.resize(capacity);
      if (share_) work.places.assign(settings.classes.size(), absent);
    }
  }

  void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) override {
    Work& work = work_[static_cast<std::size_t>(me.rank())];
    if (share_) {
      if (!points.empty()) gradients_in_common(points, eta, work, out);
      return;
    }
    for (std::size_t b = 0; b < points.size(); ++b) {
      ListedScores& listed = work.listed;
      poll(work.list.size() * settings_.classes.work(points[b]));
      draw(points[b], points[b].labels, work);
      listed.wrong = work.drawn;
      score_listed(settings_, points[b], listed);
      if (log_alpha_) weigh(listed.negatives, work.log_alpha);
      listed_gradient(settings_, points[b], eta, listed, work.drawn_alpha, out[b]);
    }
  }

  std::span<const Index> common(Member me) const override {
    return share_ ? std::span<const Index>(work_[static_cast<std::size_t>(me.rank())].drawn) : std::span<const Index>{};
  }
  std::size_t n_seen() const override { return work_[0].list.size() + 1; }

 private:
  static constexpr std::uint32_t absent = 0xffffffff;

  struct Work {
    std::vector<Index> list;  // room for a draw
    std::vector<float> alpha, times;
    std::vector<Index> drawn;           // the classes that count, distinct
    std::vector<float> drawn_alpha;     // of each,
    std::vector<float> log_alpha;       // and its log
    std::vector<std::uint32_t> places;  // K: where a class is in `drawn`
    std::vector<std::size_t> of_labels;
    ListedScores listed;
    CommonScores scores;
  };

  void gradients_in_common(std::span<const LabelPoint> points, double eta, Work& work,
                           std::span<ClassGradient> out) const {
    draw(points[0], {}, work);
    const std::size_t n = work.drawn.size();
    for (std::size_t c = 0; c < n; ++c) {
      work.places[static_cast<std::size_t>(work.drawn[c])] = static_cast<std::uint32_t>(c);
    }
    for (std::size_t b = 0; b < points.size(); b += scored_points) {
      const std::size_t size = std::min(scored_points, points.size() - b);
      run_with(settings_.isa,
               [&](Isa isa) { work.scores.score(settings_.classes, work.drawn, points.subspan(b, size), isa); });
      for (std::size_t p = 0; p < size; ++p) {
        const LabelPoint& point = points[b + p];
        work.of_labels.clear();
        for (const Index y : point.labels) {
          const std::uint32_t place = work.places[static_cast<std::size_t>(y)];
          work.of_labels.push_back(place == absent ? n : place);
        }
        const std::span<float> z = work.scores.of(p);
        // A label counts once, whether it is drawn or not.
        if (log_alpha_) keep(z, work, [&] { run_with(settings_.isa, [&] { weigh(z, work.log_alpha); }); });
        work.scores.gradient(settings_, point, eta, z, work.of_labels, work.drawn_alpha, out[b + p]);
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

  void draw(const LabelPoint& point, std::span<const Index> labels, Work& work) const {
    work.drawn.clear();
    work.drawn_alpha.clear();
    work.log_alpha.clear();
    std::visit(
        [&](const auto& select) {
          const auto classes = select.draw(point.rng, point.id, labels, {work.list, work.alpha, work.times});
          for (std::size_t c = 0; c < classes.size(); ++c) {
            if (work.alpha[c] == 0) continue;  // a label among its neighbours
            work.drawn.push_back(classes[c]);
            work.drawn_alpha.push_back(work.alpha[c]);
            work.log_alpha.push_back(std::log(work.alpha[c]));
          }
        },
        select_);
  }

  SourceSettings settings_;
  AnySelect select_;
  bool log_alpha_;
  bool share_;
  std::vector<Work> work_;
};

}  // namespace

std::unique_ptr<ClassSource> sampled_source(const SourceSettings& settings, AnySelect select, bool log_alpha,
                                            bool share) {
  return std::make_unique<Sampled>(settings, std::move(select), log_alpha, share);
}

}  // namespace manyclass
