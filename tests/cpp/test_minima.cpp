// Searches for minima, of functions whose minima are known: along a line, of many numbers, and on an interval.
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>

#include "check.hpp"
#include "manyclass/math/interval_minimum.hpp"
#include "manyclass/math/lbfgs.hpp"
#include "manyclass/math/line_search.hpp"

namespace manyclass::testing {
namespace {

// Functions 1 to 3 of Moré & Thuente 1994, section 5, with their slopes; all fall at 0.
struct Curve {
  double (*value)(double);
  double (*slope)(double);
};
constexpr Curve curves[] = {
    {[](double t) { return -t / (t * t + 2); }, [](double t) { return (t * t - 2) / ((t * t + 2) * (t * t + 2)); }},
    {[](double t) { return std::pow(t + 0.004, 5) - 2 * std::pow(t + 0.004, 4); },
     [](double t) { return 5 * std::pow(t + 0.004, 4) - 8 * std::pow(t + 0.004, 3); }},
    {[](double t) { return std::exp(-t) + 0.1 * t; }, [](double t) { return 0.1 - std::exp(-t); }},
};

void a_step_has_fallen_enough_and_is_flat_enough() {
  for (const Curve& curve : curves) {
    for (const double first : {1e-3, 1e-1, 1.0, 1e1, 1e3}) {
      const double value = curve.value(0), slope = curve.slope(0);
      LineSearch search(value, slope, first);
      auto outcome = LineSearch::Outcome::goes_on;
      double t = 0;
      for (int look = 0; look < 20 && outcome == LineSearch::Outcome::goes_on; ++look) {
        t = search.step();
        outcome = search.look(curve.value(t), curve.slope(t));
      }
      CHECK(outcome != LineSearch::Outcome::goes_on);
      CHECK(curve.value(t) <= value + 1e-3 * slope * t);
      // The second one is so flat at 0 that the interval around its minimum becomes narrow before the slope does.
      CHECK(&curve == &curves[1] || std::fabs(curve.slope(t)) <= 0.9 * std::fabs(slope));
    }
  }
}

// Rosenbrock's function of pairs of numbers, whose minimum 0 is where all of them are 1.
double rosenbrock(std::span<const double> x, std::span<double> gradient) {
  double value = 0;
  for (std::size_t i = 0; i < x.size(); i += 2) {
    const double bend = x[i + 1] - x[i] * x[i], away = 1 - x[i];
    value += 100 * bend * bend + away * away;
    gradient[i] = -400 * bend * x[i] - 2 * away;
    gradient[i + 1] = 200 * bend;
  }
  return value;
}

void lbfgs_finds_the_bottom_of_a_bent_valley() {
  Lbfgs search(12);
  int n = 0;
  double before = 1e300;
  while (search.iterate(rosenbrock, 1e-8)) {
    CHECK(search.value() < before);
    before = search.value();
    ++n;
  }
  CHECK(n < 100);
  CHECK(search.largest_slope() <= 1e-8);
  // The least curvature is about .4: a slope of 1e-8 leaves each number within some 1e-7 of the minimum.
  for (const double x : search.at()) CHECK(std::fabs(x - 1) < 1e-7);
  CHECK(!search.iterate(rosenbrock, 1e-8));
}

void what_a_function_throws_leaves_the_iterate() {
  Lbfgs search(2);
  CHECK(search.iterate(rosenbrock, 0));
  const double at = search.at()[0], value = search.value();
  const auto fails = [](std::span<const double>, std::span<double>) -> double { throw std::runtime_error("no"); };
  CHECK_THROWS(search.iterate(fails, 0), std::runtime_error);
  CHECK(search.at()[0] == at && search.value() == value);
  while (search.iterate(rosenbrock, 1e-8)) continue;
  CHECK(std::fabs(search.at()[0] - 1) < 1e-7);
}

void lbfgs_ends_where_rounding_hides_the_descent() {
  Lbfgs search(2);
  int n = 0;
  while (search.iterate(rosenbrock, 0) && n < 1000) ++n;
  CHECK(n < 1000);
  CHECK(search.value() < 1e-20);
}

// Functions of one minimum on the interval, inside it and at its ends.
void an_interval_has_its_minimum() {
  const auto check = [](auto f, Interval whole, double at) {
    int n_looks = 0;
    const auto look = [&](double x) {
      ++n_looks;
      CHECK(x >= whole.low && x <= whole.high);
      return f(x);
    };
    const IntervalMinimum found = minimum_on(look, whole, 1e-6);
    CHECK(std::fabs(found.at - at) <= 1e-6 + 3e-8 * std::fabs(at));  // as near as the root of a rounding
    CHECK(found.value == f(found.at));
    CHECK(n_looks <= 60);
  };
  check([](double x) { return (x - 0.3) * (x - 0.3); }, {-1, 4}, 0.3);
  check([](double x) { return std::exp(x) - 3 * x; }, {-2, 5}, std::log(3.0));
  check([](double x) { return std::fabs(x - 2); }, {0, 100}, 2);
  check([](double x) { return x; }, {1, 3}, 1);
  check([](double x) { return -std::log(x); }, {1, 3}, 3);
}

}  // namespace
}  // namespace manyclass::testing

int main() {
  using namespace manyclass::testing;
  a_step_has_fallen_enough_and_is_flat_enough();
  lbfgs_finds_the_bottom_of_a_bent_valley();
  what_a_function_throws_leaves_the_iterate();
  lbfgs_ends_where_rounding_hides_the_descent();
  an_interval_has_its_minimum();
  return report();
}
