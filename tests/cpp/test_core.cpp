// The parts below training: draws, threads, roots, views.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/pace.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/math/box_minimum.hpp"
#include "manyclass/math/root.hpp"
#include "manyclass/train/minibatches/row_steps.hpp"
#include "manyclass/weights/reorder.hpp"

namespace manyclass::testing {
namespace {

void draws_are_the_known_answers() {
  // SplitMix64 seeded with 0, as published with the generator.
  CHECK(mix64(golden_gamma) == 0xe220a8397b1dcdafULL);
  CHECK(mix64(2 * golden_gamma) == 0x6e789e6aa1b965f4ULL);
  CHECK(mix64(3 * golden_gamma) == 0x06c45d188009454fULL);

  // Worked out from the definition in a few lines of Python; a change means that no seed reproduces its run.
  Rng rng({7, 2}, 5);
  CHECK(rng.next() == 0xb8456127855829f0ULL);
  CHECK(rng.next() == 0x4fc170bb1ea89daeULL);
  CHECK(rng.next() == 0xba73c71298327a13ULL);
  CHECK(Rng({7, 2}, 5).uniform() == 0.7198086472975268);
  Rng digits({7, 2}, 5);
  for (const std::uint32_t digit : {7U, 3U, 7U}) CHECK(digits.below(10) == digit);
  std::vector<Index> items(8);
  std::iota(items.begin(), items.end(), 0);
  shuffle(items, Rng({1, 0}, visit_order_item));
  CHECK(items == std::vector<Index>({0, 7, 3, 4, 2, 6, 1, 5}));
}

void draws_below_n_are_uniform() {
  constexpr std::uint32_t n = 7;
  constexpr int draws = 70000;
  std::vector<int> counts(n);
  Rng rng({11, 0}, 0);
  for (int i = 0; i < draws; ++i) {
    const std::uint32_t k = rng.below(n);
    CHECK(k < n);
    if (k < n) ++counts[k];
  }
  // Five standard errors of a binomial count.
  const double expected = draws / static_cast<double>(n);
  for (const int count : counts) CHECK(std::fabs(count - expected) < 5 * std::sqrt(expected * (1 - 1.0 / n)));
}

void parallel_for_makes_every_item_once() {
  for (const int n_threads : {0, 1, 2, 7}) {
    for (const std::size_t n : {0UL, 1UL, 5UL, 1000UL}) {
      std::vector<int> made(n);
      parallel_for(n_threads, n, [&](std::size_t i) { ++made[i]; });
      CHECK(made == std::vector<int>(n, 1));
    }
  }
}

void parallel_for_rethrows_and_stops() {
  std::atomic<int> made{0};
  bool caught = false;
  try {
    parallel_for(3, 1'000'000, [&](std::size_t i) {
      ++made;
      if (i >= 10) throw std::runtime_error("item");
    });
  } catch (const std::runtime_error& error) {
    caught = std::string(error.what()) == "item";
  }
  CHECK(caught);
  CHECK(made >= 11 && made < 1'000'000);
}

void a_team_meets_at_its_barriers() {
  std::vector<int> first(4), second(4);
  run_team(4, [&](Member me) {
    const auto rank = static_cast<std::size_t>(me.rank());
    first[rank] = 1;
    me.barrier();
    second[rank] = std::accumulate(first.begin(), first.end(), 0);
  });
  const int size = std::accumulate(first.begin(), first.end(), 0);  // the system may give fewer than asked for
  CHECK(size >= 1);
  for (std::size_t rank = 0; rank < 4; ++rank) CHECK(second[rank] == (first[rank] == 1 ? size : 0));
}

void a_team_in_a_team_does_all_of_its_work() {
  std::atomic<int> made{0}, members{0};
  run_team(3, [&](Member me) {
    ++members;
    me.barrier();
    for (int repetition = 0; repetition < 3; ++repetition) parallel_for(3, 50, [&](std::size_t) { ++made; });
    run_team(2, [](Member inner) { inner.barrier(); });
  });
  CHECK(members >= 1);
  CHECK(made == 150 * members);
}

// What n pieces of work take in all, each a tenth of a millisecond for one thread, where `together` is the time of a
// team's.
template <class F>
double paced(Offset n, F&& together, double share = 1) {
  Pace pace(2);
  double total = 0;
  while (n > 0) {
    const Offset most = std::min(n, pace.n_pieces());
    double seconds = 0;
    Offset made = 0;
    do {
      seconds += pace.n_threads() > 1 ? together(total + seconds) : 1e-4;
      ++made;
    } while (made < most && !pace.is_enough(made, seconds));
    pace.took(seconds, share * seconds, made);
    total += seconds;
    n -= made;
  }
  return total;
}

void a_team_costs_little_of_what_one_thread_takes() {
  for (const double ratio : {0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 30.0, 3000.0}) {
    const auto together = [=](double) { return 1e-4 * ratio; };
    const double alone = 1e-4, first_batch = 1e-4 * ratio;
    constexpr Offset n = 100'000;  // ten seconds of one thread
    CHECK(paced(n, together) < 1.1 * alone * n * std::min(ratio, 1.0) + first_batch);
    // Short work may lose one batch, too, but none where one thread already waits for a processor.
    for (const Offset few : {9, 24, 100, 1000}) {
      CHECK(paced(few, together) < 1.1 * alone * static_cast<double>(few) + first_batch);
      CHECK(std::fabs(paced(few, together, 0.5) - alone * static_cast<double>(few)) < 1e-9);
    }
    CHECK(paced(n, together, 0.5) < 2 + 1.1 * alone * n * std::min(ratio, 1.0) + first_batch);
  }
  // Where other programs begin after two seconds and end after four, half a second is lost before that is seen.
  const auto changing = [](double at) { return at > 2 && at < 4 ? 1e-2 : 0.5e-4; };
  CHECK(paced(200'000, changing) < 1.1 * 11 + 0.5);
}

void what_a_team_has_lost_is_worked_off_once() {
  Debt debt;
  int made = 0;
  const auto work = [&](auto&& owes) {
    while (owes()) ++made;
  };
  debt.add(-1);
  debt.work_off(work);
  CHECK(made == 0);
  debt.add(1e-4);
  debt.work_off(work);
  CHECK(made > 0);
  const int before = made;
  debt.work_off(work);
  CHECK(made == before);
}

// Under AddressSanitizer: a thread may be at the last barrier when the caller has left it.
void a_barrier_outlives_the_threads_that_wait_at_it() {
  for (int repetition = 0; repetition < 300; ++repetition) {
    run_team(3, [](Member me) {
      for (int round = 0; round < 3; ++round) me.barrier();
    });
  }
}

void what_ends_one_thread_ends_all_of_its_team() {
  const Asking asking([] { throw Interrupted(); });
  int ended = 0;
  try {
    parallel_for(3, 3, [](std::size_t) {
      while (true) poll();
    });
  } catch (const Interrupted&) {
    ++ended;
  }
  std::atomic<int> members{0}, told{0};
  run_team(3, [&](Member) {
    ++members;
    try {
      while (true) poll();
    } catch (const Interrupted&) {
      ++told;
    }
  });
  CHECK(ended == 1);
  CHECK(members >= 1 && told == members);
}

void little_work_and_other_threads_do_not_ask() {
  poll();  // nobody is to be asked
  const Asking asking([] { throw Interrupted(); });
  for (int i = 0; i < 100; ++i) poll(1);
  std::atomic<int> told{0};
  run_team(2, [&](Member me) {
    if (me.rank() == 0) return;
    try {
      poll();
    } catch (const Interrupted&) {
      ++told;
    }
  });
  CHECK(told == 0);
}

void shares_are_a_partition() {
  run_team(3, [](Member me) {
    for (const std::size_t n : {0UL, 1UL, 2UL, 100UL}) {
      const auto [begin, end] = me.share(n);
      CHECK(begin <= end && end <= n);
      CHECK(me.rank() != 0 || begin == 0);
      CHECK(me.rank() != me.size() - 1 || end == n);
    }
  });
}

void roots_are_found_from_any_start() {
  for (const RootFinder finder : {RootFinder::newton, RootFinder::bisection}) {
    for (const double root : {-30.0, -1.0, 0.0, 0.5, 700.0}) {
      for (const double start : {-1000.0, -1.0, 0.0, 3.0, 999.0}) {
        double last = 0;
        const auto f = [&](double q) {
          last = q;
          return Probe{std::expm1(q - root), std::exp(q - root)};
        };
        constexpr double close = 1e-6;
        const double rest = find_root(finder, {-1000, 1000}, start, close, f);
        CHECK(std::fabs(rest) <= close);
        // A Newton step of 1e-6 leaves its square half; a bracket of 1e-6 leaves half of it.
        CHECK(std::fabs(last + rest - root) <= (finder == RootFinder::newton ? 1e-11 : 1e-6));
      }
    }
  }
}

void minima_are_found_in_a_box_and_at_its_ends() {
  const double none = std::numeric_limits<double>::infinity();
  const auto parabola = [](std::span<const double> x, std::span<double> g) {
    const double a = x[0] - 1, b = x[1] + 2;
    g[0] = 4 * a + b;
    g[1] = a + 3 * b;
    return 0.5 * (a * g[0] + b * g[1]);
  };
  constexpr CloseEnough close{.gain = 1e-14, .slope = 1e-9, .most_looks = 30};
  for (const double start : {-50.0, 0.0, 0.4, 7.0}) {
    const std::vector<double> at{start, -start};
    const BoxMinimum free = minimum_in_box(parabola, at, {{-none, -none}, {none, none}}, close);
    CHECK(std::fabs(free.at[0] - 1) < 1e-7 && std::fabs(free.at[1] + 2) < 1e-7 && std::fabs(free.value) < 1e-14);
    // With x_1 = 0 the slope of the other is 4 (x_0 - 1) + 2.
    const BoxMinimum held = minimum_in_box(parabola, at, {{0, 0}, {none, none}}, close);
    CHECK(std::fabs(held.at[0] - 0.5) < 1e-7 && held.at[1] == 0);
    const BoxMinimum point = minimum_in_box(parabola, at, {{3, 4}, {3, 4}}, close);
    CHECK(point.at[0] == 3 && point.at[1] == 4 && point.value == 0.5 * (2 * 14 + 6 * 20));
  }
  const auto bent = [](std::span<const double> x, std::span<double> g) {  // Rosenbrock's
    const double a = 1 - x[0], b = x[1] - x[0] * x[0];
    g[0] = -2 * a - 400 * x[0] * b;
    g[1] = 200 * b;
    return a * a + 100 * b * b;
  };
  const std::vector<double> far{-1.2, 1};
  const BoxMinimum found = minimum_in_box(bent, far, {{-none, -none}, {none, none}}, close);
  CHECK(std::fabs(found.at[0] - 1) < 1e-4 && std::fabs(found.at[1] - 1) < 1e-4);
  const auto logarithm = [](std::span<const double> x, std::span<double> g) {  // no number below 0
    g[0] = 1 - 1 / x[0];
    return x[0] - std::log(x[0]);
  };
  const std::vector<double> large{40};
  CHECK(std::fabs(minimum_in_box(logarithm, large, {{-none}, {none}}, close).at[0] - 1) < 1e-5);
}

void classes_are_reordered_in_place() {
  const std::vector<Index> source{2, 0, 1, 3};
  std::vector<float> columns{0, 1, 2, 3, 9, 10, 11, 12, 13, 9};
  reorder_columns(columns, 5, source, 2);
  CHECK(columns == std::vector<float>({2, 0, 1, 3, 9, 12, 10, 11, 13, 9}));
  std::vector<float> rows{0, 0.5F, 1, 1.5F, 2, 2.5F, 3, 3.5F};
  reorder_rows(rows, 2, source);
  CHECK(rows == std::vector<float>({2, 2.5F, 0, 0.5F, 1, 1.5F, 3, 3.5F}));
}

void a_row_moves_along_its_sum_whatever_comes_last() {
  constexpr std::size_t width = 16;
  const std::vector<float> x(width, 1.0F);
  for (const std::size_t n : {1U, 31U, 32U, 33U, 64U, 65U}) {
    std::vector<float> moved(2 * width);
    const VectorRows rows{moved, {}, width};
    RowGradient gradient(width);
    for (std::size_t i = 0; i < n; ++i) gradient.add(1.0F, x.data(), Isa::baseline);
    gradient.add(0.0F, x.data(), Isa::baseline);  // as many as are kept may have come just before
    gradient.descend(rows, 0, 0.5, Isa::baseline);
    gradient.descend(rows, 1, 0.5, Isa::baseline);  // nothing was added for this one
    CHECK(moved[0] == -0.5F * static_cast<float>(n));
    CHECK(moved[width] == 0);
  }
}

// Bit for bit, as a sum of a batch must not depend on what was summed beside it; of one line, of three, two and one.
void sums_made_together_are_those_made_alone() {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) continue;
    for (const std::size_t n_lines : {1U, 2U, 3U, 6U, 9U}) {
      for (const std::size_t n : {0U, 1U, 5U, 64U}) {
        const std::size_t width = n_lines * line_floats;
        Rng rng({3, 0}, n_lines * 100 + n);
        const auto random = [&](std::size_t size) {
          std::vector<float> values(size);
          for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
          return values;
        };
        const std::vector<float> vectors = random(n * width), factors = random(n * combined_rows);
        std::vector<float> together = random(combined_rows * width), alone = together;
        std::vector<const float*> rows(n);
        for (std::size_t i = 0; i < n; ++i) rows[i] = vectors.data() + i * width;
        float* to[combined_rows];
        for (std::size_t r = 0; r < combined_rows; ++r) to[r] = together.data() + r * width;
        run_with(isa, [&] {
          const auto factor = [&](std::size_t i, std::size_t r) { return factors[r * n + i]; };
          add_combinations(isa, to, factor, rows, width);
          for (std::size_t r = 0; r < combined_rows; ++r) {
            add_combination(isa, alone.data() + r * width, std::span(factors).subspan(r * n, n), rows, width);
          }
        });
        CHECK(together == alone);
      }
    }
  }
}

void every_instruction_set_runs_the_function() {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) continue;
    std::vector<float> x(100, 1.0F);
    run_with(isa, [&] {
      for (float& value : x) value *= 2;
    });
    CHECK(x == std::vector<float>(100, 2.0F));
  }
}

}  // namespace
}  // namespace manyclass::testing

int main() {
  using namespace manyclass::testing;
  draws_are_the_known_answers();
  draws_below_n_are_uniform();
  parallel_for_makes_every_item_once();
  parallel_for_rethrows_and_stops();
  a_team_in_a_team_does_all_of_its_work();
  a_team_costs_little_of_what_one_thread_takes();
  what_a_team_has_lost_is_worked_off_once();
  a_team_meets_at_its_barriers();
  a_barrier_outlives_the_threads_that_wait_at_it();
  what_ends_one_thread_ends_all_of_its_team();
  little_work_and_other_threads_do_not_ask();
  shares_are_a_partition();
  roots_are_found_from_any_start();
  minima_are_found_in_a_box_and_at_its_ends();
  classes_are_reordered_in_place();
  a_row_moves_along_its_sum_whatever_comes_last();
  sums_made_together_are_those_made_alone();
  every_instruction_set_runs_the_function();
  return report();
}
