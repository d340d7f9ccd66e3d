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
        phi_(back_.size()) {}

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
      if (problem_.map.learns()) send_back(begin, end);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      error_ = std::current_exception();
    }
    me.barrier();
    if (error_ || diverged_ >= 0) return false;
    const bool any_dense = std::ranges::any_of(std::span(gradients_).first(size), &ClassGradient::dense);
    run_with(settings_.isa, [&] {
      if (any_dense) {
        move_all(me, size, stretch.eta);
      } else {
        move_listed(me, size, stretch.eta);
      }
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
    point.rng = Rng({settings_.seed, static_cast<std::uint64_t>(stretch.pass)}, static_cast<std::uint64_t>(point.id));
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
    for (const float g : gradient.g) largest = std::max(largest, std::fabs(g));
    const double reach = stretch.eta * static_cast<double>(largest) * point.phi_sq;
    if (reach < runaway && static_cast<double>(gradient.largest_score) < runaway && std::isfinite(gradient.loss)) {
      return;
    }
    for (Index seen = diverged_; (seen < 0 || point.id < seen) && !diverged_.compare_exchange_weak(seen, point.id);) {
    }
  }

  // dL/dphi = sum_k g_k w_k, and through the map. Rows of W are read once for all points with dense gradients.
  void send_back(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    run_with(settings_.isa, [&] {
      std::fill(row_of(back_, begin).data(), row_of(back_, begin).data() + (end - begin) * problem_.classes.width(),
                0.0F);
      for (std::size_t k = 0; k < problem_.classes.size(); ++k) {
        bool any = false;
        for (std::size_t b = begin; b < end; ++b) {
          if (!gradients_[b].dense) continue;
          any = true;
          problem_.classes.add_to(row_of(back_, b), static_cast<Index>(k), gradients_[b].g[k]);
        }
        if (!any) break;
      }
      for (std::size_t b = begin; b < end; ++b) {
        const ClassGradient& gradient = gradients_[b];
        if (!gradient.dense) {
          for (std::size_t c = 0; c < gradient.size(); ++c) {
            if (gradient.g[c] != 0) problem_.classes.add_to(row_of(back_, b), gradient.ids[c], gradient.g[c]);
          }
        }
        problem_.map.backward(points_[b].phi, row_of(back_, b));
      }
    });
  }

  bool is_mine(Member me, Index row) const { return row % me.size() == me.rank(); }

  void descend(std::size_t b, Index k, float g, double eta) {
    problem_.classes.descend(k, g, points_[b].phi, points_[b].phi_sq, eta);
  }

  void move_listed(Member me, std::size_t size, double eta) {
    for (std::size_t b = 0; b < size; ++b) {
      const ClassGradient& gradient = gradients_[b];
      for (std::size_t c = 0; c < gradient.size(); ++c) {
        if (gradient.g[c] != 0 && is_mine(me, gradient.ids[c])) descend(b, gradient.ids[c], gradient.g[c], eta);
      }
    }
  }

  // Class by class, so that a row passes once for all points. Lists that come with dense gradients are those of a
  // source that has seen all classes, in ascending order.
  void move_all(Member me, std::size_t size, double eta) {
    std::vector<std::size_t> cursors(size);
    for (auto k = static_cast<Index>(me.rank()); static_cast<std::size_t>(k) < problem_.classes.size();
         k += static_cast<Index>(me.size())) {
      for (std::size_t b = 0; b < size; ++b) {
        const ClassGradient& gradient = gradients_[b];
        if (gradient.dense) {
          const float g = gradient.g[static_cast<std::size_t>(k)];
          if (g != 0) descend(b, k, g, eta);
          continue;
        }
        std::size_t& c = cursors[b];
        while (c < gradient.size() && gradient.ids[c] < k) ++c;
        if (c < gradient.size() && gradient.ids[c] == k) descend(b, k, gradient.g[c], eta);
      }
    }
  }

  void move_embeddings(Member me, std::size_t size, double eta) {
    for (std::size_t b = 0; b < size; ++b) {
      const std::span<const float> back = row_of(back_, b);
      const double back_sq = squared_norm(back);
      problem_.map.for_each_feature(points_[b].id, [&](Index j, float value) {
        if (is_mine(me, j)) problem_.map.embeddings.descend(j, value, back, back_sq, eta);
      });
    }
  }

  void account(std::size_t size, Progress& progress) {
    moved_.clear();
    for (std::size_t b = 0; b < size; ++b) {
      const ClassGradient& gradient = gradients_[b];
      progress.loss += gradient.loss;
      const auto n_moved = std::ranges::count_if(gradient.g, [](float g) { return g != 0; });
      progress.class_updates += n_moved;
      if (!source_->follows()) continue;
      for (std::size_t c = 0; c < gradient.size(); ++c) {
        if (gradient.g[c] != 0) moved_.push_back(gradient.id(c));
      }
    }
    std::ranges::sort(moved_);
    const auto repeated = std::ranges::unique(moved_);
    moved_.erase(repeated.begin(), repeated.end());
  }

  LabelProblem problem_;
  std::unique_ptr<ClassSource> source_;
  LabelSettings settings_;
  std::vector<LabelPoint> points_;
  std::vector<ClassGradient> gradients_;
  std::vector<float> back_;  // dL/dphi of each point
  std::vector<float> phi_;
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
