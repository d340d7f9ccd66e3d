"""The root finder of implicit steps: it ends always, inside the bracket, to the precision asked for."""

import math

import numpy as np
import pytest
from testing_core import pieces

from manyclass.registry import names

FINDERS = pytest.mark.parametrize("finder", names("root"))


class Counted:
    """An increasing function with its slope, and its second derivative if given; remembers where it was asked."""

    def __init__(self, f, slope, low_jump=None, bend=lambda q: 0.0):
        self.f, self.slope, self.low_jump, self.bend, self.asked = f, slope, low_jump, bend, []

    def __call__(self, q):
        self.asked.append(q)
        assert len(self.asked) < 3000
        return self.f(q), self.slope(q), 0.0 if self.low_jump is None else self.low_jump(q), self.bend(q)


def root_of(f, finder, low, high, start, close=1e-9):
    rest = pieces.find_root(finder=finder, low=low, high=high, start=start, close=close, f=f)
    assert abs(rest) <= close
    assert all(low <= q <= high for q in f.asked)
    return f.asked[-1] + rest


@FINDERS
def test_roots_of_functions_that_newton_finds_hard(finder, seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        at = rng.uniform(-5, 5)
        low, high = at - 10 ** rng.uniform(-3, 3), at + 10 ** rng.uniform(-3, 3)
        start = rng.uniform(low, high)
        for f, slope in (
            (lambda q, a=at: math.atan(50 * (q - a)), lambda q, a=at: 50 / (1 + (50 * (q - a)) ** 2)),
            (lambda q, a=at: math.expm1(min(q - a, 700.0)), lambda q, a=at: math.exp(min(q - a, 700.0))),
            (lambda q, a=at: 1 - math.exp(min(a - q, 700.0)), lambda q, a=at: math.exp(min(a - q, 700.0))),
            (lambda q, a=at: math.cbrt(q - a), lambda q, a=at: 1 / (3 * max(abs(q - a), 1e-300) ** (2 / 3))),
        ):
            # Newton stops on the length of its move; near the root of a smooth f that is the error to second order.
            assert root_of(Counted(f, slope), finder, low, high, start) == pytest.approx(at, abs=1e-8)


@FINDERS
def test_roots_at_the_ends_of_the_bracket(finder):
    for low, high in ((0.0, 3.0), (-3.0, 0.0), (0.0, 0.0)):
        f = Counted(lambda q: q, lambda q: 1.0)
        assert root_of(f, finder, low, high, 1.0) == pytest.approx(0, abs=1e-9)


@FINDERS
def test_a_slope_that_is_not_a_number_or_zero_still_leads_to_the_root(finder):
    for bad in (math.nan, 0.0, math.inf):
        f = Counted(lambda q: math.sinh(q - 2), lambda q, bad=bad: bad)
        # An infinite slope makes Newton's move zero, which reads as "found".
        if finder == "newton" and bad == math.inf:
            continue
        assert root_of(f, finder, -40.0, 50.0, 7.0) == pytest.approx(2, abs=1e-8)


def test_a_jump_is_taken_below_the_root_and_saves_newtons_crawl():
    # f = 1 - e^-q far below its root at 0: Newton gains one unit a step, a jump all of them at once.
    def f(q):
        return 1 - math.exp(-q)

    crawl = Counted(f, lambda q: math.exp(-q))
    jump = Counted(f, lambda q: math.exp(-q), lambda q: max(-q, 0.0))
    assert root_of(crawl, "newton", -60.0, 1.0, -50.0) == pytest.approx(0, abs=1e-8)
    assert root_of(jump, "newton", -60.0, 1.0, -50.0) == pytest.approx(0, abs=1e-8)
    assert len(jump.asked) <= 2 < 5 < len(crawl.asked)


def test_newton_needs_few_calls_and_bisection_one_a_bit():
    newton = Counted(lambda q: q + math.exp(q) - 3, lambda q: 1 + math.exp(q))
    bisection = Counted(newton.f, newton.slope)
    at = root_of(newton, "newton", -10.0, 10.0, 0.0)
    assert root_of(bisection, "bisection", -10.0, 10.0, 0.0) == pytest.approx(at, abs=2e-9)
    assert len(newton.asked) <= 6
    # Proposition 4: log2(gap / close), one more for the start
    assert len(bisection.asked) <= math.log2(20 / 1e-9) + 2


def test_the_second_derivative_saves_a_third_of_the_evaluations_and_finds_the_same_root(seed):
    rng = np.random.default_rng(seed)
    asked = np.zeros(2, dtype=int)
    for _ in range(100):
        at, start = rng.uniform(-3, 3, size=2)
        f, slope = (lambda q, a=at: q + math.exp(q - a) - 1 - a), (lambda q, a=at: 1 + math.exp(q - a))
        for way, bend in enumerate((lambda q: 0.0, lambda q, a=at: math.exp(q - a))):
            counted = Counted(f, slope, bend=bend)
            assert root_of(counted, "newton", -20.0, 20.0, start) == pytest.approx(at, abs=1e-8)
            asked[way] += len(counted.asked)
    assert asked[1] <= 2 * asked[0] / 3  # errors are cubed where Newton squares them: log 2 / log 3 = 0.63


def test_a_parabola_without_a_root_near_is_left_within_the_bracket():
    # f f'' > 2 f'^2 at the start: Halley's own formula would move away from the root.
    f = Counted(lambda q: q**3 + 1e-3 * q, lambda q: 3 * q**2 + 1e-3, bend=lambda q: 6 * q)
    assert root_of(f, "newton", -1.0, 4.0, 3.0) == pytest.approx(0, abs=1e-8)


NOT_FINITE = (np.nan, np.inf, -np.inf)


@FINDERS
@pytest.mark.parametrize("low", [*NOT_FINITE, -1.0])
@pytest.mark.parametrize("high", [*NOT_FINITE, 1.0])
@pytest.mark.parametrize("value", [*NOT_FINITE, 0.5])
def test_the_search_ends_where_bracket_or_function_is_no_number(finder, low, high, value):
    f = Counted(lambda q: value, lambda q: 1.0)
    pieces.find_root(finder=finder, low=low, high=high, start=0.0, close=1e-9, f=f)
    assert len(f.asked) < 3000
