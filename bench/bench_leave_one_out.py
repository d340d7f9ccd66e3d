"""What do half and twice of each number of `manyclass/figures.py` cost on each set?

A fit with nothing set, each number halved and doubled alone; test log-loss in nats and accuracy in per cent, one seed.
A tuple of passes and their decay has half or twice the passes. Counts stay at least 1, a share at most 1, and what is
no number, 0 or infinite stays as it is, as does what the fit does not read. A number whose half and twice change no set
by more than chance is one too many. Training rows are cut to at most ROWS random ones, test rows to TESTED. Records go
to results/figures.jsonl; one that is there is not made again:

    python -m pytest bench/bench_leave_one_out.py -k bibtex && python bench/make_tables.py
"""

import json
import math
import time
import warnings
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from manyclass import SoftmaxClassifier
from manyclass.figures import FIGURES
from manyclass.papers.data import load_problem

RESULTS = Path(__file__).with_name("results") / "figures.jsonl"
ROWS, TESTED = 20_000, 4_000
SETS = ("bibtex", "delicious", "20news", "agent-brand", "recipe-ingredient", "esco-titles", "toys-next", "mnist")
FACTORS = {"half": 0.5, "twice": 2.0}
SHARES = ("MOST_OF_FIT", "SHARE_OF_PAIRS", "VALIDATION")


def times(name, value, factor):
    """Half or twice a number; None where there is none."""
    if isinstance(value, tuple) and name.endswith(("PASSES", "PASSES_OF_FEW")):  # and their decay
        return max(1, round(factor * value[0])), value[1]
    if isinstance(value, tuple) and all(isinstance(number, float) for number in value):  # of costs
        return tuple(factor * number for number in value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value == 0:
        return None
    if isinstance(value, int):
        return max(1, round(factor * value)) if value > 0 else round(factor * value)
    return min(1.0, factor * value) if name in SHARES else factor * value


NAMES_READ = set()


class ReadFigures(type(FIGURES)):
    """Figures that note which of them are read."""

    def __getattribute__(self, name):
        NAMES_READ.add(name)
        return super().__getattribute__(name)


@contextmanager
def figures_read():
    """The names of the numbers that are read meanwhile."""
    plain = type(FIGURES)
    NAMES_READ.clear()
    object.__setattr__(FIGURES, "__class__", ReadFigures)
    try:
        yield NAMES_READ
    finally:
        object.__setattr__(FIGURES, "__class__", plain)


@contextmanager
def figures_with(name, value):
    """The figures of the package with another number; all of its modules read the same ones."""
    before = getattr(FIGURES, name)
    object.__setattr__(FIGURES, name, value)
    try:
        yield
    finally:
        object.__setattr__(FIGURES, name, before)


def records():
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def cut(name):
    """At most ROWS training rows and TESTED test rows, of classes that are in both."""
    data, random = load_problem(name, scale="l2", max_rows=None), np.random.default_rng(0)
    rows = np.sort(random.permutation(len(data.y_train))[:ROWS])
    X, y = data.X_train[rows], data.y_train[rows]
    tested = np.flatnonzero(np.isin(data.y_test, y))
    tested = np.sort(random.permutation(tested)[:TESTED])
    return X, y, data.X_test[tested], data.y_test[tested]


def variants(names):
    """Each number of these names and its other values."""
    for name in names:
        for word, factor in FACTORS.items():
            value = times(name, getattr(FIGURES, name), factor)
            if value is not None and value != getattr(FIGURES, name):
                yield name, word, value


def record_fit(problem, row, *, writes=True):
    """Fit, and maybe write a line of the results."""
    X, y, X_test, y_test = problem
    start = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        model = SoftmaxClassifier(random_state=0, n_jobs=1).fit(X, y)
    cpu, means = time.process_time() - start, model.evaluate(X_test, y_test)
    row = row | {
        "rows": len(y),
        "cpu_s": round(cpu, 2),
        "log_loss": round(means["log_loss"], 4),
        "accuracy": round(100 * (1 - means["error"]), 2),
    }
    if writes:
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")


@pytest.mark.parametrize("name", SETS)
def test_half_and_twice_of_each_number(timed, name, small):
    if small:
        pytest.skip("numbers are judged on real data")
    problem, base = cut(name), {"run": "figures", "data": name, "figure": "", "value": "as it is"}
    begin, made = time.perf_counter(), {(r["data"], r["figure"], r["value"]) for r in records()}
    with figures_read() as read:
        record_fit(problem, base, writes=(name, "", "as it is") not in made)
    names = [figure.name for figure in fields(FIGURES) if figure.name in read]
    for figure, word, value in variants(names):
        if (name, figure, word) not in made:
            with figures_with(figure, value):
                record_fit(problem, base | {"figure": figure, "value": word})
    timed.taken([time.perf_counter() - begin])
