"""What does the bias of a sampled logarithm cost embeddings, and which reduction ranks several labels best?

The logarithm of a sampled sum (solver="adagrad") beside the double sum, same classes drawn, same steps, so that a pass
takes the same processor time. First label: test log-loss in nats and accuracy in per cent. All labels: P@1/3/5 in per
cent. One thread, one seed, processor seconds of the fit; each at rates from a small grid.

    python -m pytest bench/bench_double_sum_labels.py -k yso-en
"""

from functools import lru_cache

import numpy as np
import pytest

from manyclass import SoftmaxClassifier, load_xmc, solvers
from manyclass.datasets import first_label, l2_normalize
from manyclass.metrics import precision_at_k

# Rows for training, drawn at random, and for testing: a fit takes a few seconds on a busy machine.
MOST_TEST = 8000
FIRST_LABEL = {"yso-en": 20_000, "yelp-next": 20_000, "panlex": 20_000}
ALL_LABELS = {"eurlex57k": 10_000}
RULES = {
    "sampled logarithm": solvers.Adagrad,
    "average, gain 0.5": solvers.EMA,
    "natural gain": solvers.AugmentReduce,
    "scent": solvers.SCENT,
    "umax": solvers.UMax,
}
REDUCTIONS = ("pick_all", "pick_all_normalized", "decoupled")
RATES, DRAWS = (0.5, 1.0, 2.0), (16, 256)
COMMON = {"model": "embedding", "dim": 64, "max_iter": 4, "sampler": "frequency", "random_state": 0, "n_jobs": 1}


def some_rows(rng, n, X, Y):
    if X.shape[0] <= n:
        return X, Y
    rows = np.sort(rng.choice(X.shape[0], n, replace=False))
    return X[rows], Y[rows]


@lru_cache(maxsize=1)  # tests of one data set follow each other
def data_of(folder, name, rows):
    X, Y = load_xmc(folder / name / "train.txt.xz")
    held = load_xmc(folder / name / "test.txt.xz", n_features=X.shape[1], n_labels=Y.shape[1])
    rng = np.random.default_rng(0)
    (X, Y), (X_test, Y_test) = some_rows(rng, rows, X, Y), some_rows(rng, MOST_TEST, *held)
    return l2_normalize(X), Y, l2_normalize(X_test), Y_test


def timed_fit(timed, solver, X, y, **given):
    """Time a fit; return the model."""
    return timed(lambda: SoftmaxClassifier(solver=solver, **COMMON, **given).fit(X, y), clock="processor")


BIAS = {f"{rule}, rate {rate:g}": (rule, rate) for rule in RULES for rate in RATES}
REDUCED = {f"{rule}, rate {rate:g}": (rule, rate) for rule in ("sampled logarithm", *REDUCTIONS) for rate in RATES}


@pytest.mark.parametrize("what", BIAS)
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("name", FIRST_LABEL)
def test_bias(timed, data_folder, name, draws, what):
    X, Y, X_test, Y_test = data_of(data_folder, name, FIRST_LABEL[name])
    y, y_test = first_label(Y), first_label(Y_test)
    seen = np.isin(y_test, y[y >= 0])
    rule, rate = BIAS[what]
    solver = RULES[rule](decay=0.5)
    model = timed_fit(timed, solver, X[y >= 0], y[y >= 0], n_negatives=draws, learning_rate=rate)
    found = model.evaluate(X_test[seen], y_test[seen])
    timed.tell(log_loss=found["log_loss"], accuracy=1 - found["error"])


@pytest.mark.parametrize("what", REDUCED)
@pytest.mark.parametrize("name", ALL_LABELS)
def test_reductions(timed, data_folder, name, what):
    X, Y, X_test, Y_test = data_of(data_folder, name, ALL_LABELS[name])
    rule, rate = REDUCED[what]
    solver = solvers.EMA(decay=0.5, reduction=rule) if rule in REDUCTIONS else solvers.Adagrad(decay=0.5)
    model = timed_fit(timed, solver, X, Y, n_negatives=min(256, Y.shape[1] - 8), learning_rate=rate)
    p = precision_at_k(Y_test, model.predict_top_k(X_test, 5)[0], (1, 3, 5))
    timed.tell(p_at_1_3_5=[100 * float(v) for v in p])
