// See labels.hpp.
#include "manyclass/train/labels.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "manyclass/train/listed_loss.hpp"
#include "manyclass/train/loop.hpp"
#include "manyclass/train/row_steps.hpp"

namespace manyclass {

namespace {

// The policy of the loop.
class Labels {
 public:
  Labels(const LabelProblem& problem, std::unique_ptr<ClassSource> source, const Settings& settings)
      : problem_(problem),
        source_(std::move(source)),
        settings_(settings),
        points_(static_cast<std::size_t>(settings.batch)),
        gradients_(points_.size()),
        back_(points_.size() * problem.classes.width()),
        phi_(back_.size()),
        steps_(static_cast<std::size_t>(settings.n_threads),
               {{problem.classes.size(), problem.classes.width()},
                {problem.map.embeddings.size(), problem.classes.width()}}) {}

  void look(Member me, const Run& run, Visits visits) {
    const auto [begin, end] = me.share(visits.size);
    run_with(settings_.isa, [&, first = begin, last = end] {  // Clang before 16 captures no structured binding
      for (std::size_t b = first; b < last; ++b) {
        poll(problem_.classes.width() * line_floats);  // an embedding of some features
        look_up(run, visits.begin, b);
      }
    });
    source_->gradients(me, std::span<const LabelPoint>(points_).subspan(begin, end - begin), run.stretch.eta,
                       std::span(gradients_).subspan(begin, end - begin));
    for (std::size_t b = begin; b < end; ++b) {
      if (!problem_.weights.empty()) weigh(points_[b].weight, gradients_[b]);
      check(run, b);
    }
    if (problem_.map.learns()) send_back(me, begin, end);
  }

  void move(Member me, const Run& run, Visits visits) {
    const std::size_t size = visits.size;
    if (me.rank() == me.size() - 1) {  // the last one has points, however few there are
      const auto whole = [](const ClassGradient& gradient) { return !gradient.common.empty(); };
      const bool any = std::ranges::any_of(std::span(gradients_).first(size), whole);
      common_ = any ? source_->common(me) : std::span<const Index>{};
    }
    me.barrier();
    run_with(settings_.isa, [&] {
      if (!common_.empty()) move_common(me, size, run.stretch.eta);
      move_listed(me, size, run.stretch.eta);
      if (problem_.map.learns()) move_embeddings(me, size, run.stretch.eta_u);
    });
  }

  void account(Visits visits, Progress& progress) {
    moved_.clear();
    for (std::size_t b = 0; b < visits.size; ++b) {
      const ClassGradient& gradient = gradients_[b];
      progress.loss += gradient.loss;
      const auto moves = [](float g) { return g != 0; };
      progress.class_updates += std::ranges::count_if(gradient.common, moves) + std::ranges::ssize(gradient.g);
      if (source_->follows()) moved_.insert(moved_.end(), gradient.ids.begin(), gradient.ids.end());
    }
    std::ranges::sort(moved_);
    moved_.erase(std::unique(moved_.begin(), moved_.end()), moved_.end());
  }

  void follow(Member me, Visits visits) {
    if (source_->follows()) source_->follow(me, moved_, visits.size);
  }

 private:
  std::span<float> row_of(std::vector<float>& rows, std::size_t b) const {
    const std::size_t width = problem_.classes.width();
    return std::span<float>(rows).subspan(b * width, width);
  }

  void look_up(const Run& run, Offset t, std::size_t b) {
    LabelPoint& point = points_[b];
    point.id = run.order[t + static_cast<Offset>(b)];
    const Index named_by = settings_.share_classes ? run.order[t] : point.id;
    point.rng = Rng({settings_.seed, static_cast<std::uint64_t>(run.stretch.pass)},
                    settings_.first_point + static_cast<std::uint64_t>(named_by));
    if (!problem_.weights.empty()) point.weight = problem_.weights[static_cast<std::size_t>(point.id)];
    if (!problem_.local.empty()) point.local = &problem_.local[static_cast<std::size_t>(point.id)];
    point.visits = run.stretch.pass;
    point.phi = row_of(phi_, b);
    point.labels = problem_.labels.of(static_cast<std::size_t>(point.id));
    problem_.map.forward(point.id, point.phi);
    point.phi_sq = squared_norm(point.phi);
  }

  static void weigh(double weight, ClassGradient& gradient) {
    const auto factor = static_cast<float>(weight);
    for (float& g : gradient.common) g *= factor;
    for (float& g : gradient.g) g *= factor;
    gradient.loss *= weight;
  }

  // A point whose scores have run away, or whose step would take them there, stops training; so does one whose gradient
  // is so large that sums of such are no numbers of single precision.
  void check(const Run& run, std::size_t b) {
    const LabelPoint& point = points_[b];
    const ClassGradient& gradient = gradients_[b];
    const float largest = std::max(largest_of(gradient.common), largest_of(gradient.g));
    const double reach = run.stretch.eta * static_cast<double>(largest) * point.phi_sq;
    constexpr double most = 0x1p100;
    if (static_cast<double>(largest) * std::sqrt(point.phi_sq) < most && reach < runaway &&
        static_cast<double>(gradient.largest_score) < runaway && std::isfinite(gradient.loss)) {
      return;
    }
    run.watch.diverged(point.id);
  }

  // dL/dphi = sum_k g_k w_k, and through the map. Rows of W in common are read once for all points.
  void send_back(Member me, std::size_t begin, std::size_t end) {
    if (begin == end) return;
    const std::span<const Index> common = source_->common(me);
    run_with(settings_.isa, [&] {
      std::fill_n(row_of(back_, begin).data(), (end - begin) * problem_.classes.width(), 0.0F);
      Factors some;
      for (std::size_t first = 0; first < common.size(); first += Factors::most) {
        const std::size_t n = std::min(Factors::most, common.size() - first);
        for (std::size_t b = begin; b < end; ++b) {
          if (gradients_[b].common.empty()) continue;
          some.clear();
          for (std::size_t c = first; c < first + n; ++c) {
            some.add(gradients_[b].common[c], problem_.classes[common[c]].data());
          }
          some.add_to(row_of(back_, b));
        }
      }
      for (std::size_t b = begin; b < end; ++b) {
        const ClassGradient& gradient = gradients_[b];
        for (std::size_t c = 0; c < gradient.g.size(); ++c) {
          problem_.classes.add_to(row_of(back_, b), gradient.ids[c], gradient.g[c]);
        }
        problem_.map.backward(points_[b].phi, row_of(back_, b));
      }
    });
  }

  bool is_mine(Member me, Index row) const { return row % me.size() == me.rank(); }

  void move_listed(Member me, std::size_t size, double eta) {
    RowSteps& steps = steps_[static_cast<std::size_t>(me.rank())].classes;
    for (std::size_t b = 0; b < size; ++b) {
      const ClassGradient& gradient = gradients_[b];
      if (merged(gradient)) continue;
      for (std::size_t c = 0; c < gradient.g.size(); ++c) {
        const Index k = gradient.ids[c];
        if (is_mine(me, k)) steps.add(k, gradient.g[c], points_[b].phi.data());
      }
    }
    steps.descend(problem_.classes, eta);
  }

  // Class by class.
  void move_common(Member me, std::size_t size, double eta) {
    std::vector<std::size_t> cursors(size);
    RowGradient sum(problem_.classes.width());
    for (std::size_t c = 0; c < common_.size(); ++c) {
      const Index k = common_[c];
      if (!is_mine(me, k)) continue;
      for (std::size_t b = 0; b < size; ++b) {
        const ClassGradient& gradient = gradients_[b];
        sum.add(merged(gradient) ? from_list(gradient, k, cursors[b]) : gradient.common[c], points_[b].phi.data());
      }
      sum.descend(problem_.classes, k, eta);
    }
  }

  // Whether a gradient's list stands for one over the classes in common, which then are all K in ascending order.
  bool merged(const ClassGradient& gradient) const { return gradient.common.empty() && !common_.empty(); }

  static float from_list(const ClassGradient& gradient, Index k, std::size_t& c) {
    while (c < gradient.ids.size() && gradient.ids[c] < k) ++c;
    return c < gradient.ids.size() && gradient.ids[c] == k ? gradient.g[c] : 0.0F;
  }

  void move_embeddings(Member me, std::size_t size, double eta) {
    RowSteps& steps = steps_[static_cast<std::size_t>(me.rank())].embeddings;
    for (std::size_t b = 0; b < size; ++b) {
      problem_.map.for_each_feature(points_[b].id, [&](Index j, float value) {
        if (is_mine(me, j)) steps.add(j, value, row_of(back_, b).data());
      });
    }
    steps.descend(problem_.map.embeddings, eta);
  }

  struct Steps {
    RowSteps classes, embeddings;
  };

  LabelProblem problem_;
  std::unique_ptr<ClassSource> source_;
  Settings settings_;
  std::vector<LabelPoint> points_;
  std::vector<ClassGradient> gradients_;
  std::vector<float> back_;  // dL/dphi of each point
  std::vector<float> phi_;
  std::vector<Steps> steps_;       // of each member
  std::span<const Index> common_;  // of this batch, where a gradient has any
  std::vector<Index> moved_;
};

}  // namespace

std::unique_ptr<Trainer> label_trainer(const LabelProblem& problem, std::unique_ptr<ClassSource> source,
                                       const Settings& settings) {
  const std::size_t n_points = problem.map.n_points();
  return std::make_unique<Loop<Labels>>(Labels(problem, std::move(source), settings), n_points, settings);
}

}  // namespace manyclass
