"""Training on by `partial_fit` against training on all rows at once: test log-loss, and its share of the seconds.

The first half of the rows lacks a tenth of the classes; the second half brings them, in some passes, beside a fit of
all rows. `fit` has the solver that is named here and nothing else set. Then days: `fit` on four fifths, and the rest
not at all, in twenty parts, or at once. Two threads.

    python -m pytest bench/bench_partial_fit.py
"""

import numpy as np
import pytest

from manyclass import SoftmaxClassifier
from manyclass.papers.data import load

SETS = ("eurlex57k", "omniglot", "bibtex", "delicious")
PASSES = {"1 pass": 1, "2 passes": 2, "4 passes": 4, "8 passes": 8}
DAYS = {"without it": 0, "in twenty parts": 20, "at once": 1}
PARAMETERS = {"solver": "implicit", "random_state": 0, "n_jobs": 2}


@pytest.fixture(scope="module", params=SETS)
def data(request, data_folder):
    """Rows as the notes have them."""
    scale = "max" if request.param == "eurlex57k" else None
    return load(request.param, scale=scale, max_rows=None, n_jobs=2)


@pytest.mark.parametrize("what", PASSES)
def test_a_second_half_with_new_classes(timed, data, what):
    rng = np.random.default_rng(0)
    classes = np.unique(data.y_train)
    is_new = np.isin(data.y_train, classes[rng.random(len(classes)) < 0.1])
    first = (rng.random(len(is_new)) < 0.5) & ~is_new
    second = rng.permutation(np.flatnonzero(~first))
    X, y, made = data.X_train, data.y_train, {}
    model = SoftmaxClassifier(**PARAMETERS).fit(X[first], y[first])

    def whole():
        made["whole"] = SoftmaxClassifier(**PARAMETERS).fit(X, y)

    timed(lambda: model.partial_fit(X[second], y[second], n_passes=PASSES[what]), beside={"all at once": whole})
    at_once, found = (one.evaluate(data.X_test, data.y_test)["log_loss"] for one in (made["whole"], model))
    timed.tell(threads=2, new_rows=is_new.mean(), at_once=at_once, above_it=found - at_once)


@pytest.mark.parametrize("what", DAYS)
def test_the_last_fifth(timed, data, what):
    X, y = data.X_train, data.y_train
    order = np.random.default_rng(0).permutation(len(y))
    some, rest = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    model = SoftmaxClassifier(**PARAMETERS).fit(X[some], y[some])

    def learn():
        for part in np.array_split(rest, DAYS[what]) if DAYS[what] else []:
            model.partial_fit(X[part], y[part])

    timed(learn)
    timed.tell(threads=2, log_loss=model.evaluate(data.X_test, data.y_test)["log_loss"])
