// Threads that race on W by Hogwild still learn the planted classes.
//
// Apart from the other tests, because here ThreadSanitizer has something to report: hogwild.supp lists what.
#include <algorithm>
#include <cmath>
#include <vector>

#include "check.hpp"
#include "manyclass/words/sentences.hpp"
#include "planted.hpp"

namespace manyclass::testing {
namespace {

void racing_threads_learn_the_planted_classes() {
  const double start = std::log(static_cast<double>(Planted::n_classes));
  for (const bool sparse : {true, false}) {
    for (const Facts& select : selection_facts) {
      Planted planted(sparse);
      Plan plan;
      plan.selection = select.name;
      plan.settings.hogwild = true;
      plan.settings.n_threads = 4;
      plan.settings.isa = best_isa();
      const Progress progress = train(plan, planted.problem(), 1.0, 5);
      CHECK(progress.diverged_at == -1);
      CHECK(planted.loss() < 0.5 * start);
    }
  }
}

// Words 2i and 2i + 1 stand beside each other and beside no other word.
void racing_threads_learn_which_words_are_neighbours() {
  constexpr Index n_words = 40;
  constexpr std::size_t width = line_floats;
  std::vector<Index> tokens;
  std::vector<Offset> sentences{0};
  for (Index s = 0; s < 8000; ++s) {
    const Index pair = s % (n_words / 2);
    tokens.insert(tokens.end(), {2 * pair, 2 * pair + 1});
    sentences.push_back(static_cast<Offset>(tokens.size()));
  }
  const std::vector<double> keep(n_words, 1.0);
  const std::vector<Offset> counts(n_words, 400);
  const AliasTable noise(std::vector<double>(n_words, 1.0));
  for (const bool sampled : {false, true}) {
    std::vector<float> input(n_words * width), output(n_words * width);
    std::vector<double> carried(n_words, std::log(static_cast<double>(n_words)));
    Rng rng({0, 0}, 0);
    for (float& h : input) h = static_cast<float>(rng.uniform() - 0.5);
    const SkipGramProblem problem{
        {tokens, sentences, keep, 1, false}, EmbeddingRows(input, width), EmbeddingRows(output, width)};
    Settings settings;
    settings.n_threads = 4;
    settings.isa = best_isa();
    const Frequency select{std::make_shared<const AliasTable>(noise), 5};
    Plan plan;
    plan.formulation = "raman";
    const auto trainer = sampled ? sampled_trainer(problem, settings, select, step_named(plan), carried)
                                 : negative_sampling_trainer(problem, settings, noise, 5, false);
    const Progress progress = trainer->run({0, 0.1, 0.1, 0, static_cast<Offset>(sentences.size() - 1), 0, 0.05});
    CHECK(progress.pairs == 16000);
    CHECK(progress.refused == 0);
    int nearest = 0;
    for (Index x = 0; x < n_words; ++x) {
      std::vector<float> z(n_words);
      std::vector<Index> all(n_words);
      for (Index y = 0; y < n_words; ++y) all[static_cast<std::size_t>(y)] = y;
      problem.output.scores(problem.input, x, all, Isa::baseline, z.data());
      nearest += std::max_element(z.begin(), z.end()) - z.begin() == (x ^ 1) ? 1 : 0;
    }
    CHECK(nearest == n_words);
  }
}

}  // namespace
}  // namespace manyclass::testing

int main() {
  manyclass::testing::racing_threads_learn_the_planted_classes();
  manyclass::testing::racing_threads_learn_which_words_are_neighbours();
  return manyclass::testing::report();
}
