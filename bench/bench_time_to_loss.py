"""How much sooner than by one full pass of exact softmax SGD is its training log-loss reached?

Data: yso-en, first labels (26,091 classes), 2 threads (racing, for all), one run. Time is that of training, in seconds;
memory is touched before the clock by a fit that is thrown away. The log-loss is exact, over a fixed random 40,000 of
the training rows; that of 10,000 test rows of known classes stands beside it. The closed form is what
coef_init="closed_form" begins at, naive Bayes with scales found on rows held out, without a step, and its seconds those
until it is known; rows that begin there have them in theirs. The exact solver runs at learning rate 3, which the
implicit one starts with too, and at 10, its best (of 3, 7, 10, 14, 20 and 40); the implicit one there at rates that
were tried for it. Needs 12 GB and about 6 minutes with real data:

    python -m pytest bench/bench_time_to_loss.py
"""

import resource
import time
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import digits

from manyclass import SoftmaxClassifier, samplers, solvers
from manyclass.training.plan import Labels
from manyclass.training.state import Points
from manyclass.training.train import begin_at_closed_form

COMMON = {"n_jobs": 2, "random_state": 0}
BY_BLOCK = {"sampler": "block", "max_iter": 12}
BY_FREQUENCY = {"sampler": samplers.FrequencyBlock(power=1.0), "max_iter": 12}
EXACT = {"solver": solvers.Exact(parallel="hogwild"), "max_iter": 1}


def implicit(u_learning_rate="auto", decay="auto"):
    """The implicit solver, with races on W."""
    return {"solver": solvers.Implicit(u_learning_rate=u_learning_rate, decay=decay, parallel="hogwild")}


# The learning rate of the exact pass that each is held to, and its parameters; the first two of each are in the table.
RIVALS = {
    "implicit, frequency_block of 64, κ = 100": (
        3.0,
        {**BY_FREQUENCY, **implicit(100.0), "n_negatives": 64, "learning_rate": 3.0},
    ),
    "implicit, frequency_block of 112, κ = 300": (
        10.0,
        {**BY_FREQUENCY, **implicit(300.0), "n_negatives": 112, "learning_rate": 20.0},
    ),
    "implicit, block of 64, κ = 30": (
        3.0,
        {**BY_BLOCK, **implicit(30.0, 0.8), "n_negatives": 64, "learning_rate": 3.0},
    ),
    "implicit, frequency_block of 208, κ = 300": (
        10.0,
        {**BY_FREQUENCY, **implicit(300.0), "n_negatives": 208, "learning_rate": 20.0},
    ),
    "implicit, frequency_block of 112, κ = 300, from the closed form": (
        10.0,
        {**BY_FREQUENCY, **implicit(300.0), "n_negatives": 112, "learning_rate": 20.0, "coef_init": "closed_form"},
    ),
}
IN_TABLE = (*tuple(RIVALS)[:2], tuple(RIVALS)[-1])


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture(scope="module")
def trained(dataset):
    """What trains until a loss, and the closed form: (seconds, training and test log-loss) after each pass."""
    data = dataset("yso-en", n_jobs=2)
    X, y = data.X_train, data.y_train
    classes, positions = np.unique(y, return_inverse=True)
    some = np.random.default_rng(0).choice(len(y), min(40_000, len(y)), replace=False)
    known = np.flatnonzero(np.isin(data.y_test, classes))[:10_000]
    looked_at = (
        (X[some], positions[some].astype(np.int32)),
        (data.X_test[known], np.searchsorted(classes, data.y_test[known]).astype(np.int32)),
    )
    SoftmaxClassifier(**COMMON, **implicit(), n_negatives=64, max_iter=1).fit(X, y)  # touches memory

    def train(stop_at, parameters):
        rows = []

        def note(state):
            losses = (state.evaluate(*rows)["log_loss"] for rows in looked_at)
            rows.append((before + state.seconds, *losses))
            return rows[-1][1] <= stop_at

        more = {"coef_init": parameters["coef_init"]} if "coef_init" in parameters else {}
        before = closed_form()[-1][0] if more else 0.0
        own = {name: value for name, value in parameters.items() if name not in more}
        SoftmaxClassifier(**COMMON | own).fit(X, y, callback=note, **more)
        return rows

    @cache
    def closed_form():
        begin = time.perf_counter()
        start = begin_at_closed_form(
            Points.numbered(X, Labels.single(positions.astype(np.int32)), len(classes)), 0, COMMON["n_jobs"]
        )
        seconds, weights = time.perf_counter() - begin, start
        return [(seconds, *(weights.log_losses(*rows, COMMON["n_jobs"])[0].mean() for rows in looked_at))]

    return SimpleNamespace(train=train, closed_form=closed_form)


@pytest.fixture(scope="module")
def exact(trained):
    """A function from a learning rate to the exact pass, which is made once."""
    made = {}

    def one(rate):
        if rate not in made:
            made[rate] = trained.train(-np.inf, {**EXACT, "learning_rate": rate})
        return made[rate]

    return one


def told(solver, rate, rows, **more):
    """A row of the table."""
    seconds, loss, _ = rows[-1]
    each = ", ".join(f"{s:.1f}: {value:.3f} ({test:.3f})" for s, value, test in rows)
    figures = {"passes": len(rows), "seconds": digits(seconds), "log_loss": round(loss, 3), "each_pass": each}
    return {"solver": solver, "learning_rate": int(rate) if rate else "-"} | figures | more


@pytest.mark.parametrize("rate", [3.0, 10.0], ids=["learning rate 3", "learning rate 10"])
def test_one_exact_pass(timed, exact, rate):
    rows = exact(rate)
    timed.taken([rows[-1][0]])
    timed.row("time_to_loss", **told("exact", rate, rows))
    timed.tell(threads=2)


@pytest.mark.parametrize("rate", [3.0, 10.0], ids=["learning rate 3", "learning rate 10"])
def test_the_closed_form_against_one_exact_pass(timed, trained, exact, rate):
    (exact_seconds, exact_loss, _), rows = exact(rate)[-1], trained.closed_form()
    timed.taken([rows[-1][0]], beside={"exact": [exact_seconds]})
    sooner = {"sooner": digits(exact_seconds / rows[-1][0], 2)} if rows[-1][1] <= exact_loss else {}
    timed.row("time_to_loss", **told(f"the closed form, against a rate of {rate:.0f}", None, rows, passes=0, **sooner))
    timed.tell(threads=2)


@pytest.mark.parametrize("what", RIVALS)
def test_implicit_against_one_exact_pass(timed, trained, exact, what):
    exact_rate, parameters = RIVALS[what]
    exact_seconds, exact_loss, _ = exact(exact_rate)[-1]
    rows = trained.train(exact_loss, parameters)
    timed.taken([rows[-1][0]], beside={"exact": [exact_seconds]})
    there = {"sooner": digits(exact_seconds / rows[-1][0], 2)} if rows[-1][1] <= exact_loss else {}
    figures = told(what, parameters["learning_rate"], rows, **there)
    if what in IN_TABLE:
        timed.row("time_to_loss", **figures)
    else:
        timed.tell(**figures)
    timed.tell(threads=2, peak_gb=peak_bytes() / 1e9)
