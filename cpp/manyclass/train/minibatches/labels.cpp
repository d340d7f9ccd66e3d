// See labels.hpp.
#include "manyclass/train/minibatches/labels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "manyclass/train/common/loop.hpp"
#include "manyclass/train/common/ridge_turns.hpp"
#include "manyclass/train/minibatches/common_feature_steps.hpp"
#include "manyclass/train/minibatches/listed_loss.hpp"
#include "manyclass/train/minibatches/row_steps.hpp"

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
        moving_(points_.size()),
        back_(points_.size() * problem.classes.width()),
        phi_(back_.size()),
        steps_(static_cast<std::size_t>(settings.n_threads), Steps(problem)) {
    if (settings.ridge > 0) take_turns();
  }

  void look(Member me, const Run& run, Visits visits) {
    const auto [begin, end] = me.share(visits.size);
    run_with(settings_.isa, [&, first = begin, last = end] {  // Clang before 16 captures no structured binding
      for (std::size_t b = first; b < last; ++b) {
        poll((problem_.classes.width() + 1) * line_floats);  // an embedding of some features
        look_up(run, visits.begin, b);
      }
    });
    source_->gradients(me, std::span<const LabelPoint>(points_).subspan(begin, end - begin),
                       run.stretch.eta * share_of(run, visits), std::span(gradients_).subspan(begin, end - begin));
    run_with(settings_.isa, [&, first = begin, last = end] {
      for (std::size_t b = first; b < last; ++b) {
        if (!problem_.weights.empty()) weigh(points_[b].weight, gradients_[b]);
        check(run, run.stretch.eta * share_of(run, visits), b);
        moving_[b] = n_moving(gradients_[b].common);
      }
    });
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
    const double eta = run.stretch.eta * share_of(run, visits), eta_u = run.stretch.eta_u * share_of(run, visits);
    run_with(settings_.isa, [&](Isa isa) {
      if (!common_.empty()) move_common(me, size, eta, isa);
      move_listed(me, size, eta, isa);
      if (problem_.map.learns()) move_embeddings(me, size, eta_u, isa);
    });
    if (!turns_.any()) return;
    me.barrier();
    run_with(settings_.isa, [&] { shrink(me, run.stretch.pass, visits, eta, eta_u); });
  }

  void account(Visits visits, Progress& progress) {
    moved_.clear();
    for (std::size_t b = 0; b < visits.size; ++b) {
      const ClassGradient& gradient = gradients_[b];
      progress.loss += gradient.loss;
      progress.class_updates += moving_[b] + std::ranges::ssize(gradient.g);
      if (source_->follows()) moved_.insert(moved_.end(), gradient.ids.begin(), gradient.ids.end());
    }
    std::ranges::sort(moved_);
    moved_.erase(std::unique(moved_.begin(), moved_.end()), moved_.end());
  }

  void follow(Member me, Visits visits) {
    if (source_->follows()) source_->follow(me, moved_, visits.size);
  }

 private:
  // Points whose vectors stay in the nearest cache while classes pass (128 numbers each: 32 kB).
  static constexpr std::size_t some_points = 64;
  // A gradient with more than one in so many of the classes in common goes back with those of other points: for eight
  // together all products are made, at two to three times the speed of one alone.
  static constexpr std::size_t thin_share = 3;

  // Gradients of some rows of W, as many as stay in the second cache while points pass (128 kB), in whole blocks.
  struct CommonSums {
    static constexpr std::size_t cache_floats = 1 << 15;

    explicit CommonSums(std::size_t columns)
        : width(columns),
          capacity(std::max(cache_floats / columns / combined_rows, std::size_t{1}) * combined_rows),
          values(capacity * columns),
          moves(capacity) {}

    std::size_t width, capacity;
    std::size_t n = 0;  // rows in use
    std::vector<float> values;
    std::vector<int> moves;  // not 0: a point asks for a move
  };

  // What a batch takes of the step sizes, where they fall by batches.
  double share_of(const Run& run, Visits visits) const {
    if (settings_.inverse_every == 0) return 1;
    const auto batch = static_cast<Offset>(settings_.batch);
    const Offset of_pass = (static_cast<Offset>(problem_.map.n_points()) + batch - 1) / batch;
    const Offset made = run.stretch.pass * of_pass + visits.begin / batch;
    return 1 / static_cast<double>(1 + made / settings_.inverse_every);
  }

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
    if (problem_.classes.by_feature()) {
      point.x = std::get<CsrView>(problem_.map.x).row(point.id);
      point.phi_sq = squared_norm(point.x.values) + (problem_.map.intercept ? 1 : 0);
      return;
    }
    problem_.map.forward(point.id, point.phi);
    point.phi_sq = squared_norm(point.phi);
  }

  static void weigh(double weight, ClassGradient& gradient) {
    const auto factor = static_cast<float>(weight);
    for (float& g : gradient.common) g *= factor;
    for (float& g : gradient.g) g *= factor;
    gradient.loss *= weight;
  }

  static std::int32_t n_moving(std::span<const float> gradient) {
    std::int32_t n = 0;
    for (const float g : gradient) n += g != 0 ? 1 : 0;
    return n;
  }

  // A point whose scores have run away, or whose step would take them there, stops training; so does one whose gradient
  // is so large that sums of such are no numbers of single precision.
  void check(const Run& run, double eta, std::size_t b) {
    const LabelPoint& point = points_[b];
    const ClassGradient& gradient = gradients_[b];
    const float largest = std::max(largest_of(gradient.common), largest_of(gradient.g));
    const double reach = eta * static_cast<double>(largest) * point.phi_sq;
    constexpr double most = 0x1p100;
    if (static_cast<double>(largest) * std::sqrt(point.phi_sq) < most && reach < runaway &&
        static_cast<double>(gradient.largest_score) < runaway && std::isfinite(gradient.loss)) {
      return;
    }
    run.watch.diverged(point.id);
  }

  // dL/dphi = sum_k g_k w_k, and through the map. Rows of W in common are read once for all points, and by several
  // points at once where most of their gradients are not zero.
  void send_back(Member me, std::size_t begin, std::size_t end) {
    if (begin == end) return;
    const std::span<const Index> common = source_->common(me);
    run_with(settings_.isa, [&](Isa isa) {
      std::fill_n(row_of(back_, begin).data(), (end - begin) * problem_.classes.width(), 0.0F);
      std::vector<std::size_t> full, thin;  // points by how many of the classes in common they move
      for (std::size_t b = begin; b < end; ++b) {
        const bool is_full = static_cast<std::size_t>(moving_[b]) * thin_share > common.size();
        if (!gradients_[b].common.empty()) (is_full ? full : thin).push_back(b);
      }
      const std::size_t n_together = full.size() / combined_rows * combined_rows;
      thin.insert(thin.end(), full.begin() + static_cast<std::ptrdiff_t>(n_together), full.end());
      full.resize(n_together);
      std::vector<const float*> rows;
      for (std::size_t first = 0; first < common.size(); first += Factors::most) {
        rows.clear();
        for (const Index k : common.subspan(first, std::min(Factors::most, common.size() - first))) {
          rows.push_back(problem_.classes.rows()[k].data());
        }
        for (std::size_t p = 0; p < full.size(); p += combined_rows) send_back_together(&full[p], first, rows, isa);
        for (const std::size_t b : thin) send_back_alone(b, first, rows, isa);
      }
      for (std::size_t b = begin; b < end; ++b) {
        const ClassGradient& gradient = gradients_[b];
        for (std::size_t c = 0; c < gradient.g.size(); ++c) {
          problem_.classes.rows().add_to(row_of(back_, b), gradient.ids[c], gradient.g[c]);
        }
        problem_.map.backward(points_[b].phi, row_of(back_, b));
      }
    });
  }

  // The parts of dL/dphi by the classes in common from the one at `first` on, `rows` of W: of combined_rows points, or
  // of one, whose zeros are left out.
  void send_back_together(const std::size_t* points, std::size_t first, std::span<const float* const> rows, Isa isa) {
    float* to[combined_rows];
    const float* factors[combined_rows];
    for (std::size_t p = 0; p < combined_rows; ++p) {
      to[p] = row_of(back_, points[p]).data();
      factors[p] = gradients_[points[p]].common.data() + first;
    }
    const auto factor = [&](std::size_t c, std::size_t p) { return factors[p][c]; };
    add_combinations(isa, to, factor, rows, problem_.classes.width());
  }

  void send_back_alone(std::size_t b, std::size_t first, std::span<const float* const> rows, Isa isa) {
    Factors some;
    for (std::size_t c = 0; c < rows.size(); ++c) some.add(gradients_[b].common[first + c], rows[c]);
    some.add_to(row_of(back_, b), isa);
  }

  bool is_mine(Member me, Index row) const { return row % me.size() == me.rank(); }

  void move_listed(Member me, std::size_t size, double eta, Isa isa) {
    Steps& mine = steps_[static_cast<std::size_t>(me.rank())];
    if (problem_.classes.by_feature()) {
      // Whole cache lines of classes: two threads do not write to one.
      const auto is_own = [&](Index k) { return is_mine(me, k / static_cast<Index>(line_floats)); };
      move_listed(size, eta, isa, is_own, mine.sparse, problem_.classes.features(),
                  [](const LabelPoint& point) { return point.x; });
    } else {
      move_listed(
          size, eta, isa, [&](Index k) { return is_mine(me, k); }, mine.classes, problem_.classes.rows(),
          [](const LabelPoint& point) { return point.phi.data(); });
    }
  }

  template <class IsOwn, class Gradient, class Rows, class Vector>
  void move_listed(std::size_t size, double eta, Isa isa, const IsOwn& is_own, RowSteps<Gradient>& steps,
                   const Rows& rows, const Vector& vector) {
    for (std::size_t b = 0; b < size; ++b) {
      const ClassGradient& gradient = gradients_[b];
      if (merged(gradient)) continue;
      for (std::size_t c = 0; c < gradient.g.size(); ++c) {
        const Index k = gradient.ids[c];
        if (is_own(k)) steps.add(k, gradient.g[c], vector(points_[b]));
      }
    }
    steps.descend(rows, eta, isa);
  }

  // Classes in common are in no list, so that members may share them out in another way: by places.
  void move_common(Member me, std::size_t size, double eta, Isa isa) {
    const auto [first, last] = me.share((common_.size() + combined_rows - 1) / combined_rows);
    const std::size_t end = std::min(last * combined_rows, common_.size());
    if (problem_.classes.by_feature()) {
      CommonFeatureSteps& steps = steps_[static_cast<std::size_t>(me.rank())].common;
      steps.descend(problem_.classes.features(), std::span(points_).first(size), std::span(gradients_).first(size),
                    common_, first * combined_rows, end, eta, isa);
      return;
    }
    std::vector<std::size_t> cursors(size);
    CommonSums sums(problem_.classes.width());
    for (std::size_t c = first * combined_rows; c < end; c += sums.capacity) {
      sums.n = std::min(sums.capacity, end - c);
      std::ranges::fill(sums.values, 0.0F);
      std::ranges::fill(sums.moves, 0);
      for (std::size_t b = 0; b < size; b += some_points) {
        for (std::size_t r = 0; r < sums.n; r += combined_rows) {
          add_gradients(b, std::min(some_points, size - b), c, r, cursors, sums, isa);
        }
      }
      for (std::size_t r = 0; r < sums.n; ++r) {
        if (sums.moves[r] == 0) continue;
        const std::span<const float> sum = std::span<const float>(sums.values).subspan(r * sums.width, sums.width);
        problem_.classes.rows().descend(common_[c + r], sum, squared_norm(sum), eta);
      }
    }
  }

  // Adds what n points from b on ask of the combined_rows classes at the places c + r, ... Points that ask nothing of
  // any of them are left out.
  void add_gradients(std::size_t b, std::size_t n, std::size_t c, std::size_t r, std::span<std::size_t> cursors,
                     CommonSums& sums, Isa isa) const {
    const std::size_t width = sums.width, n_classes = std::min(combined_rows, sums.n - r);
    float factors[some_points][combined_rows];
    const float* vectors[some_points];
    float asked[combined_rows] = {};  // sums of magnitudes, NaN for one
    std::size_t n_asking = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const ClassGradient& gradient = gradients_[b + i];
      float (&of_point)[combined_rows] = factors[n_asking];
      if (merged(gradient)) {
        std::ranges::fill(of_point, 0.0F);
        for (std::size_t k = 0; k < n_classes; ++k) {
          of_point[k] = from_list(gradient, common_[c + r + k], cursors[b + i]);
        }
      } else if (n_classes == combined_rows) {
        std::memcpy(of_point, gradient.common.data() + c + r, sizeof(of_point));
      } else {
        std::ranges::fill(of_point, 0.0F);
        std::copy_n(gradient.common.data() + c + r, n_classes, of_point);
      }
      for (std::size_t k = 0; k < combined_rows; ++k) asked[k] += std::fabs(of_point[k]);
      std::uint64_t bits[combined_rows / 2], any = 0;
      std::memcpy(bits, of_point, sizeof(bits));
      for (const std::uint64_t two : bits) any |= two;
      vectors[n_asking] = points_[b + i].phi.data();
      n_asking += any != 0;
    }
    for (std::size_t k = 0; k < combined_rows; ++k) sums.moves[r + k] |= asked[k] == 0 ? 0 : 1;
    float* to[combined_rows];
    for (std::size_t k = 0; k < combined_rows; ++k) to[k] = sums.values.data() + (r + k) * width;
    const auto factor = [&](std::size_t i, std::size_t k) { return factors[i][k]; };
    add_combinations(isa, to, factor, std::span<const float* const>(vectors, n_asking), width);
  }

  // Whether a gradient's list stands for one over the classes in common, which then are all K in ascending order.
  bool merged(const ClassGradient& gradient) const { return gradient.common.empty() && !common_.empty(); }

  static float from_list(const ClassGradient& gradient, Index k, std::size_t& c) {
    while (c < gradient.ids.size() && gradient.ids[c] < k) ++c;
    return c < gradient.ids.size() && gradient.ids[c] == k ? gradient.g[c] : 0.0F;
  }

  void move_embeddings(Member me, std::size_t size, double eta, Isa isa) {
    RowSteps<RowGradient>& steps = steps_[static_cast<std::size_t>(me.rank())].embeddings;
    for (std::size_t b = 0; b < size; ++b) {
      problem_.map.for_each_feature(points_[b].id, [&](Index j, float value) {
        if (is_mine(me, j)) steps.add(j, value, row_of(back_, b).data());
      });
    }
    steps.descend(problem_.map.embeddings, eta, isa);
  }

  // The ridge

  void take_turns() {
    const std::size_t n_points = problem_.map.n_points(), n_classes = problem_.classes.size();
    std::size_t n_stored = 0;
    for (std::size_t i = 0; i < n_points; ++i) {
      problem_.map.for_each_feature(static_cast<Index>(i), [&](Index, float) { ++n_stored; });
    }
    const double of_point = static_cast<double>(n_stored) / static_cast<double>(std::max(n_points, std::size_t{1}));
    const auto seen = static_cast<double>(std::min(source_->n_seen(), n_classes));
    if (problem_.classes.by_feature()) {
      turns_ = RidgeTurns(settings_.ridge, problem_.map.n_hidden, of_point * seen / static_cast<double>(n_classes),
                          n_points);
      return;
    }
    turns_ = RidgeTurns(settings_.ridge, n_classes, seen, n_points);
    embedding_turns_ =
        RidgeTurns(settings_.ridge * problem_.embedding_ridge, problem_.map.embeddings.size(), of_point, n_points);
  }

  // The rows whose turn it is, all of which have moved.
  void shrink(Member me, int pass, Visits visits, double eta, double eta_u) {
    const auto mine = [&](const RidgeTurns& turns, const auto& shrink_row) {
      turns.for_each(pass, visits.begin, visits.size, [&](std::size_t first, std::size_t last) {
        const auto [from, to] = me.share(last - first);
        for (std::size_t row = first + from; row < first + to; ++row) shrink_row(static_cast<Index>(row));
      });
    };
    const double due = eta * turns_.due();
    if (!problem_.classes.by_feature()) {
      const std::size_t n = problem_.map.n_hidden;  // without the 1
      mine(turns_, [&](Index k) { problem_.classes.rows().shrink(k, n, due); });
      if (!problem_.map.learns()) return;
      const double of_embedding = eta_u * embedding_turns_.due();
      mine(embedding_turns_, [&](Index j) { problem_.map.embeddings.shrink(j, n, of_embedding); });
      return;
    }
    FeatureWeights weights = problem_.classes.features();
    std::vector<float>& shrinks = steps_[static_cast<std::size_t>(me.rank())].shrinks;
    shrinks.clear();
    mine(turns_, [&](Index j) {
      if (shrinks.empty()) {
        shrinks.resize(weights.n_classes);
        weights.write_shrinks(shrinks, due);
      }
      weights.model.rows.multiply(j, ClassRange{0, static_cast<Index>(weights.n_classes)}, shrinks);
    });
  }

  struct Steps {
    explicit Steps(const LabelProblem& problem)
        : classes(by_feature(problem) ? 0 : problem.classes.size(), problem.classes.width()),
          embeddings(problem.map.embeddings.size(), problem.classes.width()),
          sparse(by_feature(problem) ? problem.classes.size() : 0, n_sparse(problem)),
          common(n_sparse(problem)) {}

    static bool by_feature(const LabelProblem& problem) { return problem.classes.by_feature(); }
    static std::size_t n_sparse(const LabelProblem& problem) { return by_feature(problem) ? problem.map.n_hidden : 0; }

    RowSteps<RowGradient> classes, embeddings;
    RowSteps<SparseGradient> sparse;
    CommonFeatureSteps common;
    std::vector<float> shrinks;  // of the classes, by the ridge
  };

  LabelProblem problem_;
  std::unique_ptr<ClassSource> source_;
  Settings settings_;
  std::vector<LabelPoint> points_;
  std::vector<ClassGradient> gradients_;
  std::vector<std::int32_t> moving_;  // classes in common that each of them moves
  std::vector<float> back_;           // dL/dphi of each point
  std::vector<float> phi_;
  std::vector<Steps> steps_;       // of each member
  std::span<const Index> common_;  // of this batch, where a gradient has any
  std::vector<Index> moved_;
  RidgeTurns turns_, embedding_turns_;  // of classes, or of features where these have the rows; and of embeddings
};

}  // namespace

std::unique_ptr<Trainer> label_trainer(const LabelProblem& problem, std::unique_ptr<ClassSource> source,
                                       const Settings& settings) {
  if (settings.ridge > 0 && source->follows()) {
    throw std::invalid_argument("a ridge moves rows that an index of W does not follow; a search needs ridge 0");
  }
  const std::size_t n_points = problem.map.n_points();
  return std::make_unique<Loop<Labels>>(Labels(problem, std::move(source), settings), n_points, settings);
}

}  // namespace manyclass
