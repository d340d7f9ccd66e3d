// See postings.hpp.
#include "manyclass/train/postings.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "manyclass/train/listed_loss.hpp"
#include "manyclass/train/loop.hpp"

namespace manyclass {

namespace {

// Rounds what is smaller than `step` to 0 or to it: g is kept, as `step`, with probability |g| / step. Returns how many
// are not 0.
//
// One uniform number u is drawn for a point, and class k takes the fraction of u + k / golden ratio. Each of them is
// uniform, so that each rounding is unbiased, and a loop over classes is vectorised.
std::int32_t round_small(std::span<float> g, float step, Rng rng) {
  constexpr std::uint32_t weyl = 0x9e3779b9U;  // 2^32 / golden ratio
  const auto first = static_cast<std::uint32_t>(rng.next() >> 32);
  std::int32_t n_left = 0;
  for (std::size_t k = 0; k < g.size(); ++k) {
    const std::uint32_t word = first + static_cast<std::uint32_t>(k) * weyl;
    const float threshold = static_cast<float>(static_cast<std::int32_t>(word >> 8)) * (0x1p-24F * step);
    const float size = std::fabs(g[k]);
    const float rounded = size > threshold ? std::copysign(step, g[k]) : 0.0F;
    g[k] = size < step ? rounded : g[k];
    n_left += g[k] != 0 ? 1 : 0;
  }
  return n_left;
}

// The Adagrad step of an array of weights along all of their gradients; lines of 16 zeros are only read.
void descend(std::span<float> w, std::span<float> squares, std::span<const float> g, float rate, float offset,
             Isa isa) {
  rate = std::fmin(rate, most_adagrad);
  std::size_t k = 0;
  for (; k + line_floats <= w.size(); k += line_floats) {
    if (largest_of(g.subspan(k, line_floats)) == 0) continue;
    with_vectors(isa, [&]<std::size_t Bytes>() {
      alignas(line_bytes) float slopes[line_floats];
      copy_line<Bytes>(g.data() + k, slopes);
      adagrad_line<Bytes>(w.data() + k, squares.data() + k, slopes, rate, offset);
    });
  }
  for (; k < w.size(); ++k) {
    if (g[k] == 0) continue;
    squares[k] += g[k] * g[k];
    w[k] -= rate * g[k] / std::sqrt(squares[k] + offset);
  }
}

// The policy of the loop.
class PostingsPolicy {
 public:
  struct Work {
    std::vector<float> z, g, positives, positive_g;
    LossMemory memory;
    double loss = 0;
    std::int32_t n_moved = 0;  // classes
  };

  PostingsPolicy(const PostingsProblem& problem, const Settings& settings)
      : problem_(problem),
        settings_(settings),
        rows_(problem_.support, problem_.values, problem_.n_classes()),
        work_(static_cast<std::size_t>(settings.batch > 1 ? settings.batch : 0), work()) {
    share_classes();
  }

  Work work() const {
    const std::size_t n = problem_.intercept.size();
    return {std::vector<float>(n), std::vector<float>(n), {}, {}, {}, 0, 0};
  }

  // Alone

  Offset visits_at_a_time() const { return 16; }

  void make(const Run& run, Visits visits, Work& work, Progress& progress) {
    for (std::size_t b = 0; b < visits.size; ++b) {
      const Index i = run.order[visits.begin + static_cast<Offset>(b)];
      if (!look_at(run, i, work)) return;
      run_with(settings_.isa, [&](Isa isa) { move_classes(run, i, {0, problem_.n_classes()}, work.g, isa); });
      count(work, progress);
    }
  }

  // Together

  void look(Member me, const Run& run, Visits visits) {
    for (std::size_t b = static_cast<std::size_t>(me.rank()); b < visits.size;
         b += static_cast<std::size_t>(me.size())) {
      poll(problem_.intercept.size());
      look_at(run, run.order[visits.begin + static_cast<Offset>(b)], work_[b]);
    }
  }

  void move(Member me, const Run& run, Visits visits) {
    const auto [first, last] = me.share(bounds_.size() - 1);
    const ClassRange mine{bounds_[first], bounds_[last] - bounds_[first]};
    run_with(settings_.isa, [&](Isa isa) {
      for (std::size_t b = 0; b < visits.size; ++b) {
        move_classes(run, run.order[visits.begin + static_cast<Offset>(b)], mine, work_[b].g, isa);
      }
    });
  }

  void account(Visits visits, Progress& progress) {
    for (std::size_t b = 0; b < visits.size; ++b) count(work_[b], progress);
  }

 private:
  // Bounds of ranges of classes with about as many weights each, for threads to own.
  void share_classes() {
    constexpr std::size_t n_ranges = 64;
    std::vector<std::size_t> sizes(problem_.intercept.size(), 1);
    for (const Index k : problem_.support.ids) ++sizes[static_cast<std::size_t>(k)];
    std::size_t total = 0, sum = 0;
    for (const std::size_t size : sizes) total += size;
    bounds_ = {0};
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      sum += sizes[k];
      while (bounds_.size() <= n_ranges && sum * n_ranges >= total * bounds_.size()) {
        bounds_.push_back(static_cast<Index>(k) + 1);
      }
    }
  }

  // The gradient of a point at the present weights; false where it has run away.
  bool look_at(const Run& run, Index i, Work& work) const {
    const std::span<const Index> labels = problem_.labels.of(static_cast<std::size_t>(i));
    const std::size_t n_classes = problem_.intercept.size(), n_wrong = n_classes - labels.size();
    const std::span<float> z(work.z), g(work.g);
    work.positives.resize(labels.size());
    work.positive_g.resize(labels.size());
    float largest = 0;
    run_with(settings_.isa, [&] {
      std::ranges::copy(problem_.intercept, z.begin());
      rows_.add_scores(problem_.x.row(i), {0, problem_.n_classes()}, z);
      largest = largest_of(z);
    });
    if (!(largest <= static_cast<float>(runaway))) {
      run.watch.diverged(i);
      return false;
    }
    // The labels' scores change places with the last ones, and the gradients back.
    for (std::size_t l = 0; l < labels.size(); ++l) work.positives[l] = z[static_cast<std::size_t>(labels[l])];
    for (std::size_t l = labels.size(); l-- > 0;) std::swap(z[static_cast<std::size_t>(labels[l])], z[n_wrong + l]);
    LabelGradient gradient{work.positive_g, g.first(n_wrong)};
    const LabelScores scores{work.positives, z.first(n_wrong)};
    std::visit(
        [&](const auto& loss) { run_with(settings_.isa, [&] { work.loss = loss(scores, gradient, work.memory); }); },
        problem_.loss);
    for (std::size_t l = 0; l < labels.size(); ++l) {
      std::swap(g[static_cast<std::size_t>(labels[l])], g[n_wrong + l]);
      g[static_cast<std::size_t>(labels[l])] = work.positive_g[l];
    }
    const RngKey key{settings_.seed, static_cast<std::uint64_t>(run.stretch.pass)};
    const Rng rng(key, first_local_item + settings_.first_point + static_cast<std::uint64_t>(i));
    run_with(settings_.isa, [&] {
      if (!problem_.weights.empty()) {
        const double weight = problem_.weights[static_cast<std::size_t>(i)];
        work.loss *= weight;
        for (float& slope : g) slope *= static_cast<float>(weight);
      }
      work.n_moved = round_small(g, problem_.rounding, rng);
    });
    if (std::isfinite(work.loss)) return true;
    run.watch.diverged(i);
    return false;
  }

  // Moves the weights of some classes.
  void move_classes(const Run& run, Index i, ClassRange classes, std::span<const float> g, Isa isa) const {
    rows_.descend(problem_.x.row(i), classes, g, problem_.squares.sums, static_cast<float>(run.stretch.eta),
                  problem_.squares.offset, isa);
    if (problem_.intercept_squares.sums.empty()) return;
    descend(at_classes(problem_.intercept, classes), at_classes(problem_.intercept_squares.sums, classes),
            at_classes(g, classes), static_cast<float>(run.stretch.eta_u), problem_.intercept_squares.offset, isa);
  }

  static void count(const Work& work, Progress& progress) {
    progress.loss += work.loss;
    progress.class_updates += work.n_moved;
  }

  PostingsProblem problem_;
  Settings settings_;
  PostingRows<float> rows_;
  std::vector<Work> work_;  // of each point of a batch
  std::vector<Index> bounds_;
};

void check(const PostingsProblem& p) {
  const auto n_points = static_cast<std::size_t>(p.x.n_rows());
  check(p.support, static_cast<std::size_t>(p.x.n_cols), p.intercept.size(), "supported classes");
  check(p.labels, n_points, p.intercept.size(), "labels");
  for (std::size_t i = 0; i < n_points; ++i) {
    if (p.labels.of(i).empty()) throw std::invalid_argument("a point has no label");
  }
  if (p.values.size() != p.support.ids.size() || p.squares.sums.size() != p.values.size() ||
      (!p.intercept_squares.sums.empty() && p.intercept_squares.sums.size() != p.intercept.size()) ||
      (!p.weights.empty() && p.weights.size() != n_points)) {
    throw std::invalid_argument("the weights, their squares and the points do not fit each other");
  }
  if (!(p.squares.offset > 0) || !(p.rounding >= 0) ||
      (!p.intercept_squares.sums.empty() && !(p.intercept_squares.offset > 0))) {
    throw std::invalid_argument("offsets must be above 0, and rounding at least 0");
  }
}

}  // namespace

std::unique_ptr<Trainer> postings_trainer(const PostingsProblem& problem, const Settings& settings) {
  check(problem);
  const auto n_points = static_cast<std::size_t>(problem.x.n_rows());
  return std::make_unique<Loop<PostingsPolicy>>(PostingsPolicy(problem, settings), n_points, settings);
}

}  // namespace manyclass
