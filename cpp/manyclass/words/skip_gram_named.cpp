// Trainers of word vectors by name: see sentences.hpp.
#include <cmath>
#include <stdexcept>
#include <vector>

#include "manyclass/train/points/plan.hpp"
#include "manyclass/words/sentences.hpp"

namespace manyclass {

namespace {

AliasTable noise_of(std::span<const Offset> counts, double power) {
  return frequency_table(std::vector<double>(counts.begin(), counts.end()), power);
}

void check_rows(const EmbeddingRows& table, std::size_t n_rows, const char* what) {
  if (table.size() == n_rows && table.width() % line_floats == 0) return;
  throw std::invalid_argument(std::string("the ") + what + " table is not " + std::to_string(n_rows) +
                              " rows of whole cache lines");
}

}  // namespace

std::unique_ptr<Trainer> skip_gram_trainer(const SkipGramProblem& problem, const Settings& settings,
                                           const SkipGramChoice& choice, std::span<const Offset> counts,
                                           std::span<double> carried) {
  const std::size_t n_words = problem.text.keep.size();
  const bool tree = choice.solver == "hierarchical";
  if (counts.size() != n_words || carried.size() != n_words || n_words < 2) {
    throw std::invalid_argument("counts and carried values must be those of two words or more");
  }
  check_rows(problem.input, n_words, "input");
  check_rows(problem.output, tree ? n_words - 1 : n_words, "output");
  if (problem.input.width() != problem.output.width()) throw std::invalid_argument("the tables differ in width");
  const bool negatives = choice.solver == "negative_sampling";
  if (tree || negatives) check_options(choice.options, {}, "solver '" + choice.solver + "'");
  if (tree) return hierarchical_trainer(problem, settings, huffman_tree(counts));
  const AliasTable noise = noise_of(counts, choice.power);
  if (negatives) {
    return negative_sampling_trainer(problem, settings, noise, choice.n_negatives, choice.share);
  }
  Plan plan;
  plan.solver = choice.solver;
  plan.formulation = "raman";
  plan.options = choice.options;
  const std::span<const Facts> solvers = solver_facts();
  const Facts& solver = solvers[place_of("solver", choice.solver, solvers)];
  check_options(choice.options, {&solver, 1}, "solver '" + choice.solver + "'");
  const bool with_label = solver.has(flag::draws_label);  // noise does not know the label
  const Frequency select{std::make_shared<const AliasTable>(noise), choice.n_negatives, with_label};
  return sampled_trainer(problem, settings, select, step_named(plan), carried);
}

}  // namespace manyclass
