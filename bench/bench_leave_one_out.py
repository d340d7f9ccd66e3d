"""What do the constants of "auto" lose on a set that had no part in choosing them?

Each constant is varied alone, the others as they are, on sets of first labels; test log-loss in nats and accuracy in
per cent, one seed and one run each. Left out: for each set the value with the least mean regret over the *other* sets
is taken, and what it loses there against the value that all sets together choose, and against the best of the values,
is told. Of the linear model with `solver="implicit"` the second table has, for each set, how far all as it is ends
above the best of all these values; beside constants they are steps and rules for u that somebody might set by hand.
Training rows are cut to at most ROWS random ones, test rows to TESTED. Records go to results/leave_one_out.jsonl; one
that is there is not made again:

    python -m pytest bench/bench_leave_one_out.py && python bench/make_tables.py
"""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from planned import with_figures

from manyclass import SoftmaxClassifier
from manyclass.figures import FIGURES
from manyclass.papers.data import load_problem

RESULTS = Path(__file__).with_name("results") / "leave_one_out.jsonl"
ROWS, TESTED = 100_000, 4_000
HYBRID = ("bibtex", "delicious", "20news", "toys-next", "gowalla", "yelp-next", "panlex", "yso-en")
# Without gowalla, where a linear W takes 6.7 GB.
LINEAR = (
    "bibtex", "delicious", "20news", "toys-next", "eurlex57k", "omniglot", "mnist", "panlex", "yelp-next", "yso-en",
)  # fmt: skip

# The model, the figure of `manyclass.figures` that the rules read, or the parameter, and its values; the first
# is today's. Rules name as their source the constants that decided them.
CONSTANTS = {
    "first move of pairs": ("hybrid", "FIRST_MOVE", (7.2, 2.4, 21.6)),
    "passes of embeddings": (
        "hybrid", "EMBEDDED_PASSES", ((4, 0.5), (3, 0.4), (6, 0.6))
    ),
    "columns of embeddings": ("hybrid", "EMBEDDED_DIM", (192, 128, 256)),
    "sampled passes": ("implicit", "PASSES_SAMPLED", (12, 6, 20)),
    "sampled classes": ("implicit", "NEGATIVES_SAMPLED", (256, 128, 512)),
    "as good a step": ("implicit", "AS_GOOD", (1.005, 1.0, 1.01)),
    "sum of steps": ("implicit", "SUM_OF_STEPS", (2.0, 1.0, 4.0)),
    "last step": ("implicit", "LAST_STEP", (0.0125, 0.05, 0.003125)),
    "step of u": ("implicit", "U_RATES", tuple(FIGURES.U_RATES | {"implicit": rate} for rate in (30.0, 3.0, 300.0))),
    "rule for u": ("implicit", "solver", ("implicit", "scent", "ema", "scgd", "bregman")),
}  # fmt: skip


def told(value):
    """A value as tables have it."""
    if isinstance(value, tuple):  # passes and their decay
        return f"{value[0]} x {value[1]}"
    return repr(value["implicit"] if isinstance(value, dict) else value)


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


def model_of(kind, name, value):
    """A model with a value of a parameter or of a figure."""
    given = {"model": "hybrid", "n_models": 1} if kind == "hybrid" else {"model": "linear", "solver": "implicit"}
    given |= {name: value} if name.islower() else {}
    model = SoftmaxClassifier(random_state=0, n_jobs=1, **given)
    return model if name.islower() else with_figures(model, **{name: value})


@pytest.mark.parametrize("name", list(dict.fromkeys(HYBRID + LINEAR)))
def test_constants_of_auto(timed, name, small):
    if small:
        pytest.skip("constants are judged on real data")
    X, y, X_test, y_test = cut(name)
    begin, as_it_is = time.perf_counter(), {}  # of each kind, whatever constant stands beside
    for constant, (kind, attribute, values) in CONSTANTS.items():
        for place, value in enumerate(values):
            have = {(r["data"], r["constant"], r["value"]) for r in records()}
            if name not in (HYBRID if kind == "hybrid" else LINEAR) or (name, constant, told(value)) in have:
                continue
            figures = as_it_is.get(kind) if place == 0 else None
            if figures is None:
                start = time.process_time()
                model = model_of(kind, attribute, value).fit(X, y)
                cpu = time.process_time() - start
                found = model.evaluate(X_test, y_test)
                figures = {
                    "log_loss": round(found["log_loss"], 4),
                    "accuracy": round(100 * (1 - found["error"]), 2),
                    "cpu_s": round(cpu, 1),
                }
            if place == 0:
                as_it_is[kind] = figures
            row = {"run": "leave_one_out", "data": name, "kind": kind, "constant": constant, "value": told(value)}
            with RESULTS.open("a") as file:
                file.write(json.dumps(row | {"now": place == 0} | figures | {"rows": len(y)}) + "\n")
    timed.taken([time.perf_counter() - begin])
