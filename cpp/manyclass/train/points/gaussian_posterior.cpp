// See gaussian_posterior.hpp.
#include "manyclass/train/points/gaussian_posterior.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "manyclass/math/gauss_rule.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/step/augment_reduce.hpp"
#include "manyclass/train/common/loop.hpp"

namespace manyclass {

namespace {

// Of the scores of a point under q(w): beside the means, which a SampledPoint has, the variances.
struct Spread {
  std::span<const float> of_classes;
  double of_label;
};

// What a point's visit finds: slopes and curvatures of -bound in the scores of wrong classes, alpha included.
struct Found {
  std::span<float> slopes, curvatures, scratch;
};

// Moves the local state of the point, returns -bound. `scores`, which the point views, may be changed.
class PointTerms {
 public:
  virtual ~PointTerms() = default;
  virtual double find(SampledPoint point, const Spread& spread, double& local, const Found& found,
                      std::span<float> scores) const = 0;
};

// The share of (1 + t)^-power that q and u move at visit t, where not all classes are drawn.
constexpr double forgetting = 0.9;

// The softmax: u = log of 1 + sum alpha E e^d.
struct GumbelTerms final : PointTerms {
  explicit GumbelTerms(double floor) : bound{{{1, forgetting, floor}}} {}
  GumbelBound bound;

  double find(SampledPoint point, const Spread& spread, double& u, const Found& found,
              std::span<float> scores) const override {
    for (std::size_t c = 0; c < scores.size(); ++c) scores[c] += 0.5F * spread.of_classes[c];
    point.label_score -= 0.5 * spread.of_label;
    const Gradient gradient = bound.gradient(point, u, found.slopes);
    std::ranges::copy(found.slopes, found.curvatures.begin());
    return gradient.loss;
  }
};

// At a draw of the scores. The first visit has no best q behind it to keep a share of.
template <class Noise>
struct NoiseTerms final : PointTerms {
  NoiseTerms(const std::shared_ptr<const LocalFamily>& family, double floor)
      : first{family, {1, forgetting, 0}}, later{family, {1, forgetting, floor}} {}
  NaturalBound<Noise> first, later;

  double find(SampledPoint point, const Spread& spread, double& mu, const Found& found,
              std::span<float> scores) const override {
    Rng rng(point.key, point.item);
    for (std::size_t c = 0; c < scores.size(); ++c) {
      scores[c] += static_cast<float>(std::sqrt(static_cast<double>(spread.of_classes[c])) * NormalNoise::draw(rng));
    }
    point.label_score += std::sqrt(spread.of_label) * NormalNoise::draw(rng);
    const ClassTerms terms{found.slopes, found.curvatures, found.scratch};
    const BoundTerms bound = (point.visits == 0 ? first : later).terms(point, {mu, *point.local_scale}, terms);
    const double loss = loss_of(point, bound, terms);
    for (std::size_t c = 0; c < scores.size(); ++c) {
      found.slopes[c] *= point.alpha[c];
      found.curvatures[c] *= point.alpha[c];
    }
    return loss;
  }
};

// One-vs-each of the softmax, sum_{k != y} E log(1 + e^d) with d ~ N(z_k - z_y, v_k + v_y) under q(w): the bound of
// Titsias (NIPS 2016, eq. 15) for Bayesian estimation, which its section 5 leaves to future work. Nothing is carried
// from visit to visit, and the expectations of log(1 + e^d), of its slope F(d) and of its curvature F(d) F(-d) are by a
// Gauss-Hermite rule. With 64 nodes they are right to 10^-3 where d has a standard deviation of up to 5, and to 5 10^-3
// of up to 10, by comparison with the trapezoidal rule (tests/core/test_posterior.py).
struct OneVsEachTerms final : PointTerms {
  static constexpr std::size_t n_nodes = 64;
  GaussRule rule = gauss_hermite(n_nodes);

  double find(SampledPoint point, const Spread& spread, double&, const Found& found,
              std::span<float> scores) const override {
    double loss = 0;
    for (std::size_t c = 0; c < scores.size(); ++c) {
      const double mean = static_cast<double>(scores[c]) - point.label_score;
      const double deviation = std::sqrt(static_cast<double>(spread.of_classes[c]) + spread.of_label);
      double value = 0, slope = 0, curvature = 0;
      for (std::size_t j = 0; j < n_nodes; ++j) {
        const double d = mean + deviation * rule.nodes[j];
        const double right = expit(d);
        value += rule.weights[j] * softplus(d);
        slope += rule.weights[j] * right;
        curvature += rule.weights[j] * right * expit(-d);
      }
      const auto alpha = static_cast<double>(point.alpha[c]);
      loss += alpha * value;
      found.slopes[c] = static_cast<float>(alpha * slope);
      found.curvatures[c] = static_cast<float>(alpha * curvature);
    }
    return loss;
  }
};

std::unique_ptr<const PointTerms> terms_of(const Plan& plan, double floor) {
  using Made = std::unique_ptr<const PointTerms>;
  if (plan.bound == "one_vs_each") {
    if (plan.noise != "gumbel") {
      throw std::invalid_argument("bound is 'one_vs_each', which bounds the softmax; noise is '" + plan.noise +
                                  "' and must be 'gumbel'");
    }
    return std::make_unique<OneVsEachTerms>();
  }
  if (plan.bound != "augment_reduce") {
    throw std::invalid_argument("bound is '" + plan.bound + "'; it must be one of 'augment_reduce', 'one_vs_each'");
  }
  return with_part<Made>(Alternatives<NoiseKind>{}, "noise", plan.noise, [&]<class Noise>() -> Made {
    if constexpr (std::is_same_v<Noise, GumbelNoise>) {
      return std::make_unique<GumbelTerms>(floor);
    } else {
      if (plan.family == nullptr) throw std::invalid_argument("noise '" + plan.noise + "' needs a family of q");
      return std::make_unique<NoiseTerms<UtilityNoise<Noise>>>(plan.family, floor);
    }
  });
}

SparseRow squared(SparseRow x, std::vector<float>& values) {
  values.assign(x.values.begin(), x.values.end());
  for (float& v : values) v *= v;
  return {x.indices, values};
}

DenseRow squared(DenseRow x, std::vector<float>& values) {
  values.assign(x.begin(), x.end());
  for (float& v : values) v *= v;
  return values;
}

// 1 / P(a batch holds the feature): what a touched weight pays of the ridge, beside that of its class.
std::vector<float> rarities(const CsrView& x, Index batch) {
  std::vector<double> counts(static_cast<std::size_t>(x.n_cols));
  for (const Index j : x.indices) ++counts[static_cast<std::size_t>(j)];
  std::vector<float> out;
  constexpr double most = 1 - 1e-9;  // of a feature that all points have
  for (const double count : counts) {
    const double share = std::fmin(count / x.n_rows(), most);
    out.push_back(static_cast<float>(1 / -std::expm1(batch * std::log1p(-share))));
  }
  return out;
}

std::vector<float> rarities(const DenseView&, Index) { return {}; }

// The policy of the loop, whose visits a batch takes together.
template <class Rows>
class Posterior {
 public:
  Posterior(const PosteriorProblem<Rows>& problem, const Plan& plan)
      : problem_(problem.problem),
        variances_(problem.variances),
        collected_(problem.collected),
        settings_(plan.settings),
        select_{problem_.n_classes, std::min(plan.n_negatives, problem_.n_classes), true},
        terms_(terms_of(plan, static_cast<double>(select_.size) / problem_.n_classes)),
        rarity_(rarities(problem_.x, settings_.batch)) {}

  struct Work {
    std::vector<float> alpha, scores, variances, slopes, curvatures, scratch, moves, squares;
    std::vector<double> of_class;
    std::vector<Index> drawn, features;
  };

  // One thread runs.
  Work work() const {
    const std::size_t m = select_.capacity(), all = m * static_cast<std::size_t>(settings_.batch);
    const std::vector<float> row(m), rows(all);
    return {row, row, row, rows, rows, row, row, {}, std::vector<double>(m), std::vector<Index>(m), {}};
  }
  Offset visits_at_a_time() const { return settings_.batch; }

  void make(const Run& run, Visits visits, Work& work, Progress& progress) {
    const std::size_t m = select_.capacity();
    const Rng rng({settings_.seed, static_cast<std::uint64_t>(run.stretch.pass)},
                  static_cast<std::uint64_t>(run.order[visits.begin]));
    const ClassList classes = select_.draw(rng, 0, {}, {work.drawn, work.alpha, {}});
    std::ranges::fill(work.of_class, 0.0);
    run_with<Isa::avx2>(settings_.isa, [&] {
      for (std::size_t b = 0; b < visits.size; ++b) {
        look(run, point_of(run, visits, b), classes, found_of(work, b), work, progress);
      }
      if (run.watch.stopped()) return;
      for (std::size_t b = 0; b < visits.size; ++b) {
        move(run.stretch.eta, point_of(run, visits, b), classes, found_of(work, b), work);
      }
      shrink(run, visits, classes, work);
      for (std::size_t b = 0; b < visits.size; ++b) {
        move_label(point_of(run, visits, b), found_of(work, b), work);
      }
    });
    progress.class_updates += static_cast<std::int64_t>(m + visits.size);
  }

 private:
  static Index point_of(const Run& run, Visits visits, std::size_t b) {
    return run.order[visits.begin + static_cast<Offset>(b)];
  }

  Found found_of(Work& work, std::size_t b) const {
    const std::size_t m = select_.capacity();
    return {std::span(work.slopes).subspan(b * m, m), std::span(work.curvatures).subspan(b * m, m), work.scratch};
  }

  double x_sq(Index i) const {
    return static_cast<double>(problem_.x_sq[static_cast<std::size_t>(i)]) +
           (problem_.model.intercept.empty() ? 0.0 : 1.0);
  }

  static double sum(std::span<const float> values) {
    double sum = 0;
    for (const float v : values) sum += static_cast<double>(v);
    return sum;
  }

  void look(const Run& run, Index i, ClassList classes, const Found& found, Work& work, Progress& progress) {
    const auto at = static_cast<std::size_t>(i);
    const auto x = problem_.x.row(i);
    const Index y = problem_.labels[at];
    const auto alpha = static_cast<float>(problem_.n_classes) / static_cast<float>(select_.size);
    for (std::size_t c = 0; c < classes.size(); ++c) work.alpha[c] = classes[c] == y ? 0.0F : alpha;
    problem_.model.scores(x, classes, work.scores);
    const auto x_squares = squared(x, work.squares);
    variances_.scores(x_squares, classes, work.variances);
    SampledPoint point{work.scores,
                       work.alpha,
                       static_cast<double>(problem_.model.score(x, y)),
                       x_sq(i),
                       run.stretch.eta,
                       run.stretch.eta_u,
                       run.stretch.pass,
                       alpha};
    if (!problem_.local_scale.empty()) point.local_scale = &problem_.local_scale[at];
    point.key = {settings_.seed, static_cast<std::uint64_t>(run.stretch.pass)};
    point.item = first_local_item + static_cast<std::uint64_t>(i);
    const Spread spread{work.variances, static_cast<double>(variances_.score(x_squares, y))};
    const double loss = terms_->find(point, spread, problem_.u[at], found, work.scores);
    double all = loss;  // not finite where one of what moves weights is not, such as the length of the row
    const double weight = problem_.weights.empty() ? 1.0 : problem_.weights[at];
    progress.loss += weight * loss;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      found.slopes[c] *= static_cast<float>(weight);
      found.curvatures[c] *= static_cast<float>(weight);
      work.of_class[c] += point.x_sq * static_cast<double>(found.curvatures[c]);
      all += static_cast<double>(found.slopes[c]) + work.of_class[c];
    }
    if (!std::isfinite(all)) run.watch.diverged(i);
  }

  // Each step is divided by one and what all curvatures of its classes could add to it, so that no batch overshoots.
  // Slopes become moves.
  void move(double eta, Index i, ClassList classes, const Found& found, Work& work) {
    const double of_label = x_sq(i) * sum(found.curvatures);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      found.slopes[c] *= static_cast<float>(eta / (1 + eta * (work.of_class[c] + of_label)));
      work.moves[c] = -found.slopes[c];
    }
    const auto x = problem_.x.row(i);
    problem_.model.add(x, classes, std::span<float>(work.moves), settings_.isa);
    collected_.add(squared(x, work.squares), classes, std::span<const float>(found.curvatures), settings_.isa);
  }

  void move_label(Index i, const Found& found, Work& work) {
    const auto x = problem_.x.row(i);
    const Index y = problem_.labels[static_cast<std::size_t>(i)];
    auto rise = static_cast<float>(sum(found.slopes));
    problem_.model.add(x, ClassRange{y, 1}, std::span<float>(&rise, 1), settings_.isa);
    collected_.add(squared(x, work.squares), y, static_cast<float>(sum(found.curvatures)));
  }

  // The ridge of the drawn classes, on the features that the batch has.
  void shrink(const Run& run, Visits visits, ClassList classes, Work& work) {
    const double pull = run.stretch.eta * settings_.ridge * static_cast<double>(visits.size) *
                        static_cast<double>(problem_.n_classes) / static_cast<double>(select_.size);
    if constexpr (std::is_same_v<typename Rows::Data, CsrView>) {
      work.features.clear();
      for (std::size_t b = 0; b < visits.size; ++b) {
        const std::span<const Index> indices = problem_.x.row(point_of(run, visits, b)).indices;
        work.features.insert(work.features.end(), indices.begin(), indices.end());
      }
      std::ranges::sort(work.features);
      work.features.erase(std::unique(work.features.begin(), work.features.end()), work.features.end());
      for (const Index j : work.features) {
        const double rarity = static_cast<double>(rarity_[static_cast<std::size_t>(j)]);
        problem_.model.rows.multiply(j, classes, static_cast<float>(1 / (1 + pull * rarity)));
      }
    } else {
      for (const Index k : classes) problem_.model.rows.multiply(k, static_cast<float>(1 / (1 + pull)));
    }
  }

  Problem<Rows> problem_;
  Rows variances_, collected_;
  Settings settings_;
  Uniform select_;
  std::unique_ptr<const PointTerms> terms_;
  std::vector<float> rarity_;  // D, for sparse points
};

}  // namespace

std::unique_ptr<Trainer> posterior_trainer(const Plan& plan, const AnyPosteriorProblem& any_problem) {
  Settings settings = plan.settings;
  settings.hogwild = false;
  return std::visit(
      [&]<class Rows>(const PosteriorProblem<Rows>& problem) -> std::unique_ptr<Trainer> {
        return std::make_unique<Loop<Posterior<Rows>>>(Posterior<Rows>(problem, plan), problem.problem.labels.size(),
                                                       settings);
      },
      any_problem);
}

}  // namespace manyclass
