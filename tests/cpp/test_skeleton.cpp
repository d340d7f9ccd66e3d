// The skeleton objective against its definition: finite differences, samples of classes, and a step.
#include <cmath>
#include <vector>

#include "check.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/step/sgd.hpp"
#include "skeleton.hpp"

namespace manyclass::testing {
namespace {

// The objective itself, in double, over all classes but the label.
double definition(const std::vector<double>& scores, std::size_t label) {
  double sum = 0;
  for (std::size_t k = 0; k < scores.size(); ++k) {
    const double excess = 1 + scores[k] - scores[label];
    if (k != label && excess > 0) sum += excess * excess / 2;
  }
  return sum;
}

std::vector<double> random_scores(std::uint64_t item) {
  Rng rng({5, 0}, item);
  std::vector<double> scores(9);
  for (double& z : scores) z = static_cast<double>(static_cast<float>(4 * rng.uniform() - 2));
  return scores;
}

struct Answer {
  Gradient slopes;
  std::vector<float> g;
};

// What the skeleton says of the classes in `sample`, each with the weight `alpha`; the label's weight is 0.
Answer answer(const std::vector<double>& scores, std::size_t label, const std::vector<std::size_t>& sample,
              float alpha) {
  std::vector<float> z;
  std::vector<float> weights;
  for (const std::size_t k : sample) {
    z.push_back(static_cast<float>(scores[k]));
    weights.push_back(k == label ? 0.0F : alpha);
  }
  std::vector<float> g(z.size());
  double u = 0;
  const SampledPoint point{
      .scores = z, .alpha = weights, .label_score = scores[label], .x_sq = 1, .eta = 1, .eta_u = 1};
  return {SquaredHinge{}.gradient(point, u, g), g};
}

std::vector<std::size_t> all_classes() { return {0, 1, 2, 3, 4, 5, 6, 7, 8}; }

void gradient_is_the_slope_of_the_definition() {
  // Central differences err by h^2 (the third derivative is 0 but at a corner, which costs h / 4 at most), floats by
  // 1e-6.
  constexpr double h = 1e-5;
  constexpr double tolerance = 1e-5;
  for (std::uint64_t item = 0; item < 50; ++item) {
    const auto scores = random_scores(item);
    const std::size_t label = item % scores.size();
    const Answer found = answer(scores, label, all_classes(), 1);
    for (std::size_t k = 0; k < scores.size(); ++k) {
      auto up = scores;
      auto down = scores;
      up[k] += h;
      down[k] -= h;
      const double slope = (definition(up, label) - definition(down, label)) / (2 * h);
      CHECK(std::fabs(slope - (k == label ? -found.slopes.label : static_cast<double>(found.g[k]))) < tolerance);
    }
    CHECK(found.slopes.u == 0);
  }
}

void samples_of_classes_estimate_the_gradient_without_bias() {
  // Every wrong class alone, with the weight 8 = the number of wrong classes: the mean over all such samples is exact
  // up to the rounding of floats, a few times 6e-8 of sums below 40.
  const auto scores = random_scores(77);
  constexpr std::size_t label = 3;
  const double exact = answer(scores, label, all_classes(), 1).slopes.label;
  double mean = 0;
  for (std::size_t k = 0; k < scores.size(); ++k) {
    if (k != label) mean += answer(scores, label, {k}, 8).slopes.label / 8;
  }
  CHECK(std::fabs(mean - exact) < 1e-5);
}

void a_small_explicit_step_lowers_the_objective() {
  const auto scores = random_scores(1);
  constexpr std::size_t label = 0;
  const std::vector<float> z(scores.begin() + 1, scores.end());
  const std::vector<float> alpha(z.size(), 1);
  std::vector<float> p(z.size());
  std::vector<float> scratch(2 * z.size());
  double u = 0;
  const SampledPoint point{
      .scores = z, .alpha = alpha, .label_score = scores[label], .x_sq = 1, .eta = 0.01, .eta_u = 0.01};
  const Move move = Sgd<SquaredHinge>{}(point, u, p, scratch);
  auto after = scores;  // x has length 1, so that a row that moves by p x moves its score by p
  after[label] += move.label;
  for (std::size_t k = 0; k < z.size(); ++k) after[k + 1] -= static_cast<double>(p[k]);
  CHECK(definition(after, label) < definition(scores, label));
}

}  // namespace
}  // namespace manyclass::testing

int main() {
  using namespace manyclass::testing;
  gradient_is_the_slope_of_the_definition();
  samples_of_classes_estimate_the_gradient_without_bias();
  a_small_explicit_step_lowers_the_objective();
  return report();
}
