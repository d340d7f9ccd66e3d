// See label_trainer.hpp.
#include "manyclass/train/label_trainer.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "manyclass/train/row_steps.hpp"

namespace manyclass {

namespace {

class LabelLoop final : public Trainer {
 public:
  LabelLoop(const LabelProblem& problem, std::unique_ptr<ClassSource> source, const LabelSettings& settings)
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

  Progress run(const Stretch& stretch) override {
    order_visits(stretch.pass);
    Progress progress;
    progress.loss = stretch.loss;
    diverged_ = -1;
    error_ = nullptr;
    run_team(settings_.n_threads, [&](Member me) {
      for (Index t = stretch.first; t < stretch.last; t += settings_.batch) {
        const auto size = static_cast<std::size_t>(std::min(settings_.batch, stretch.last - t));
        if (!batch(me, stretch, t, size, progress)) break;
      }
    });
    if (error_) std::rethrow_exception(error_);
    progress.diverged_at = diverged_;
    return progress;
  }

 private:
  void order_visits(int pass) {
    if (!settings_.shuffle || pass == ordered_pass_) return;
    order_.resize(problem_.map.n_points());
    std::iota(order_.begin(), order_.end(), 0);
    shuffle(order_, Rng({settings_.seed, static_cast<std::uint64_t>(pass)}, visit_order_item));
    ordered_pass_ = pass;
  }

  Index visit(Index t) const { return settings_.shuffle ? order_[static_cast<std::size_t>(t)] : t; }

  std::span<float> row_of(std::vector<float>& rows, std::size_t b) const {
    const std::size_t width = problem_.classes.width();
    return std::span<float>(rows).subspan(b * width, width);
  }

  // False, for all members, where training must stop; W has not been moved then.
  bool batch(Member me, const Stretch& stretch, Index t, std::size_t size, Progress& progress) {
    const auto [begin, end] = me.share(size);
    try {
      run_with(settings_.isa, [&] {
        for (std::size_t b = begin; b < end; ++b) look_up(stretch, t, b);
      });
      source_->gradients(me, std::span<const LabelPoint>(points_).subspan(begin, end - begin), stretch.eta,
                         std::span(gradients_).subspan(begin, end - begin));
      for (std::size_t b = begin; b < end; ++b) check(stretch, b);
      if (problem_.map.learns()) send_back(me, begin, end);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      error_ = std::current_exception();
    }
    me.barrier();
    if (error_ || diverged_ >= 0) return false;
    if (me.rank() == me.size() - 1) {  // the last one has points, however few there are
      const auto whole = [](const ClassGradient& gradient) { return !gradient.common.empty(); };
      const bool any = std::ranges::any_of(std::span(gradients_).first(size), whole);
      common_ = any ? source_->common(me) : std::span<const Index>{};
    }
    me.barrier();
    run_with(settings_.isa, [&] {
      if (!common_.empty()) move_common(me, size, stretch.eta);
      move_listed(me, size, stretch.eta);
      if (problem_.map.learns()) move_embeddings(me, size, stretch.eta_u);
    });
    if (me.rank() == 0) account(size, progress);
    me.barrier();
    if (source_->follows()) source_->follow(me, moved_, size);
    return true;
  }

  void look_up(const Stretch& stretch, Index t, std::size_t b) {
    LabelPoint& point = points_[b];
    point.id = visit(t + static_cast<Index>(b));
    const Index named_by = settings_.share ? visit(t) : point.id;
    point.rng = Rng({settings_.seed, static_cast<std::uint64_t>(stretch.pass)}, static_cast<std::uint64_t>(named_by));
    point.phi = row_of(phi_, b);
    point.labels = problem_.labels.of(static_cast<std::size_t>(point.id));
    problem_.map.forward(point.id, point.phi);
    point.phi_sq = squared_norm(point.phi);
  }

  // A point whose scores have run away, or whose step would take them there, stops training.
  void check(const Stretch& stretch, std::size_t b) {
    const LabelPoint& point = points_[b];
    const ClassGradient& gradient = gradients_[b];
    float largest = 0;
    for (const float g : gradient.common) largest = std::max(largest, std::fabs(g));
    for (const float g : gradient.g) largest = std::max(largest, std::fabs(g));
    const double reach = stretch.eta * static_cast<double>(largest) * point.phi_sq;
    if (reach < runaway && static_cast<double>(gradient.largest_score) < runaway && std::isfinite(gradient.loss)) {
      return;
    }
    for (Index seen = diverged_; (seen < 0 || point.id < seen) && !diverged_.compare_exchange_weak(seen, point.id);) {
    }
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

  void account(std::size_t size, Progress& progress) {
    moved_.clear();
    for (std::size_t b = 0; b < size; ++b) {
      const ClassGradient& gradient = gradients_[b];
      progress.loss += gradient.loss;
      const auto moves = [](float g) { return g != 0; };
      progress.class_updates += std::ranges::count_if(gradient.common, moves) + std::ranges::ssize(gradient.g);
      if (source_->follows()) moved_.insert(moved_.end(), gradient.ids.begin(), gradient.ids.end());
    }
    std::ranges::sort(moved_);
    const auto repeated = std::ranges::unique(moved_);
    moved_.erase(repeated.begin(), repeated.end());
  }

  struct Steps {
    RowSteps classes, embeddings;
  };

  LabelProblem problem_;
  std::unique_ptr<ClassSource> source_;
  LabelSettings settings_;
  std::vector<LabelPoint> points_;
  std::vector<ClassGradient> gradients_;
  std::vector<float> back_;  // dL/dphi of each point
  std::vector<float> phi_;
  std::vector<Steps> steps_;       // of each member
  std::span<const Index> common_;  // of this batch, where a gradient has any
  std::vector<Index> moved_;
  std::vector<Index> order_;
  int ordered_pass_ = -1;
  std::atomic<Index> diverged_{-1};
  std::exception_ptr error_;
  std::mutex error_mutex_;
};

}  // namespace

std::unique_ptr<Trainer> label_trainer(const LabelProblem& problem, std::unique_ptr<ClassSource> source,
                                       const LabelSettings& settings) {
  return std::make_unique<LabelLoop>(problem, std::move(source), settings);
}

}  // namespace manyclass
