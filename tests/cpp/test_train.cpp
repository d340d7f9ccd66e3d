// The core trains and evaluates without Python: every solver, selection and storage on a planted problem.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "check.hpp"
#include "manyclass/evaluate/top_k.hpp"
#include "planted.hpp"

namespace manyclass::testing {
namespace {

Plan plan_of(const std::string& solver, const std::string& selection) {
  Plan plan;
  plan.solver = solver;
  plan.selection = selection;
  plan.n_negatives = 16;
  plan.settings.seed = 3;
  plan.settings.isa = best_isa();
  return plan;
}

// Explicit steps weigh a sampled class K/m-fold, so their step size is smaller.
double eta_of(const std::string& solver) { return solver == "sgd" || solver == "umax" ? 0.1 : 1.0; }

// Solvers of the likelihood itself at one step size for all; the others are to train without running away.
bool learns_fast(const std::string& solver) {
  for (const char* name : {"implicit", "umax", "sgd", "exact", "css", "ema", "augment_reduce", "scgd", "bregman"}) {
    if (solver == name) return true;
  }
  return false;
}

void every_combination_learns_the_planted_classes() {
  const double start = std::log(static_cast<double>(Planted::n_classes));
  for (const bool sparse : {true, false}) {
    for (const Facts& step : solver_facts()) {
      if (step.has(flag::batch)) continue;
      for (const Facts& select : selection_facts) {
        const std::string solver(step.name), selection(select.name);
        if (step.has(flag::draws_label) && !select.has(flag::label)) continue;
        for (const std::string formulation : {"proposed", "raman"}) {
          Planted planted(sparse);
          CHECK(std::fabs(planted.loss() - start) < 1e-6);  // W = 0; the loss sums 40 floats of one value
          Plan plan = plan_of(solver, selection);
          plan.formulation = formulation;
          const Progress progress = train(plan, planted.problem(), eta_of(solver), 5);
          CHECK(progress.diverged_at == -1);
          CHECK(progress.class_updates >= Planted::n_points);
          CHECK(std::isfinite(planted.loss()));
          if (!learns_fast(solver)) continue;
          if (!(planted.loss() < 0.5 * start)) {
            std::fprintf(stderr, "%s %s %s sparse %d: %g nats of %g\n", solver.c_str(), selection.c_str(),
                         formulation.c_str(), sparse, planted.loss(), start);
          }
          CHECK(planted.loss() < 0.5 * start);
        }
      }
    }
  }
}

void batches_give_the_same_bits_for_any_number_of_threads() {
  for (const bool sparse : {true, false}) {
    for (const Facts& select : selection_facts) {
      const std::string selection(select.name);
      Planted alone(sparse);
      for (const int n_threads : {1, 2, 3}) {
        Planted planted(sparse);
        Plan plan = plan_of("implicit", selection);
        plan.settings.batch = 8;
        plan.settings.n_threads = n_threads;
        train(plan, n_threads == 1 ? alone.problem() : planted.problem(), 1.0, 2);
        if (n_threads == 1) continue;
        CHECK(planted.weights() == alone.weights());
        CHECK(planted.intercept() == alone.intercept());
        CHECK(planted.u() == alone.u());
      }
    }
  }
}

void instruction_sets_agree_to_rounding() {
  Planted wide(true), plain(true);
  Plan plan = plan_of("implicit", "block");
  train(plan, wide.problem(), 1.0, 1);
  plan.settings.isa = Isa::baseline;
  train(plan, plain.problem(), 1.0, 1);
  // Fused and separate multiply-adds differ by half an ulp in each of some hundred moves of a weight of order 1.
  float most = 0;
  for (std::size_t n = 0; n < wide.weights().size(); ++n) {
    most = std::max(most, std::fabs(wide.weights()[n] - plain.weights()[n]));
  }
  CHECK(most < 100 * 0x1p-23F);
}

void a_step_that_runs_away_is_reported_and_not_taken() {
  Planted planted(true);
  const Progress progress = train(plan_of("exact", "all"), planted.problem(), 1e12, 1);
  CHECK(progress.diverged_at >= 0);
  for (const float w : planted.weights()) CHECK(w == 0);
}

// One point of a batch has so large a weight that it runs away; those before it in its batch have moved rows already,
// or not, which is to be the same for any number of threads.
void a_batch_in_which_a_step_runs_away_leaves_the_same_bits_for_any_number_of_threads() {
  // In the ninth batch: one thread alone makes the first eight, and then all do (core/pace.hpp).
  constexpr Index batch = 8, runs_away = 8 * batch + 5;
  std::vector<double> weights(Planted::n_points, 1.0);
  weights[runs_away] = 1e30;
  for (const Facts& select : selection_facts) {
    if (select.has(flag::all_classes)) continue;
    Planted alone(false);
    for (const int n_threads : {1, 2, 3}) {
      Planted planted(false);
      AnyProblem problem = n_threads == 1 ? alone.problem() : planted.problem();
      std::get<Problem<ClassRows<float>>>(problem).weights = weights;
      Plan plan = plan_of("sgd", std::string(select.name));
      plan.n_negatives = 3;  // so that most rows are those of one visit alone
      plan.settings.batch = batch;
      plan.settings.n_threads = n_threads;
      plan.settings.shuffle = false;
      const auto trainer = make_trainer(plan, problem);
      CHECK(trainer->run({0, 0.1, 0.1, 0, Planted::n_points, 0}).diverged_at == runs_away);
      if (n_threads == 1) continue;
      CHECK(planted.weights() == alone.weights());
      CHECK(planted.intercept() == alone.intercept());
    }
  }
}

void evaluation_is_one_answer_in_three_forms() {
  Planted planted(true);
  train(plan_of("implicit", "block"), planted.problem(), 1.0, 2);
  const auto n = static_cast<std::size_t>(Planted::n_points), k = static_cast<std::size_t>(Planted::n_classes);
  const SparseModel model = planted.sparse_model();
  std::vector<double> losses(n), normalizers(n);
  std::vector<Index> ranks(n), best(n * k);
  std::vector<float> scores(n * k), log_probabilities(n * k);
  log_losses(planted.csr(), planted.labels(), model, 3, best_isa(), losses, ranks);
  log_normalizers(planted.csr(), model, 3, best_isa(), normalizers);
  all_scores(planted.csr(), model, 3, best_isa(), scores);
  top_k(planted.csr(), model, Planted::n_classes, 3, best_isa(), best, log_probabilities);
  for (std::size_t i = 0; i < n; ++i) {
    const auto label = static_cast<std::size_t>(planted.labels()[i]);
    double sum = 0;
    for (std::size_t c = 0; c < k; ++c) sum += std::exp(static_cast<double>(scores[i * k + c]));
    // 40 single-precision exponentials, each to a few ulp.
    CHECK(std::fabs(normalizers[i] - std::log(sum)) < 8 * 0x1p-23);
    CHECK(std::fabs(losses[i] - (normalizers[i] - static_cast<double>(scores[i * k + label]))) < 1e-12);
    CHECK(best[i * k + static_cast<std::size_t>(ranks[i])] == planted.labels()[i]);
    CHECK(std::is_sorted(log_probabilities.rbegin() + static_cast<std::ptrdiff_t>((n - i - 1) * k),
                         log_probabilities.rbegin() + static_cast<std::ptrdiff_t>((n - i) * k)));
  }
  CHECK(planted.loss(1) == planted.loss(4));
}

void unknown_names_are_refused() {
  Planted planted(true);
  CHECK_THROWS(make_trainer(plan_of("newton", "block"), planted.problem()), std::invalid_argument);
  CHECK_THROWS(make_trainer(plan_of("implicit", "some"), planted.problem()), std::invalid_argument);
}

}  // namespace
}  // namespace manyclass::testing

int main() {
  using namespace manyclass::testing;
  every_combination_learns_the_planted_classes();
  batches_give_the_same_bits_for_any_number_of_threads();
  instruction_sets_agree_to_rounding();
  a_step_that_runs_away_is_reported_and_not_taken();
  a_batch_in_which_a_step_runs_away_leaves_the_same_bits_for_any_number_of_threads();
  evaluation_is_one_answer_in_three_forms();
  unknown_names_are_refused();
  return report();
}
